package io.ppmr.target;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.ReadingMode;
import io.ppmr.checkpoint.RestartNeeds;
import io.ppmr.doctor.NodeFactsSource;
import io.ppmr.doctor.NodeProbe;
import io.ppmr.doctor.PairCheck;
import io.ppmr.protocol.ControlMessage.Begin;
import io.ppmr.protocol.ControlMessage.Introduce;
import io.ppmr.protocol.ControlMessage.Introduced;
import io.ppmr.protocol.Finding;
import io.ppmr.protocol.JobFacts;
import io.ppmr.protocol.NodeFacts;
import io.ppmr.target.session.SessionEvent;
import io.ppmr.transport.ControlLink;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How a target answers a source that says what it is and what would come: with what it is itself, and with what it
 * finds when it compares. Immutable, for any thread.
 */
final class Introduction {
    private static final Logger LOG = LoggerFactory.getLogger(Introduction.class);

    private final TargetSettings settings;
    private final NodeFactsSource node;

    Introduction(TargetSettings settings, NodeFactsSource node) {
        this.settings = settings;
        this.node = node;
    }

    /** What a source said would come, and what was found against it. */
    record Visitor(JobFacts job, List<Finding> findings) {}

    /** The facts of this node as it is. */
    static NodeFactsSource probe(TargetSettings settings) {
        return new NodeProbe(
                Path.of("/"),
                settings.pool().poolBytes() + settings.transfer().stagingLimitBytes(),
                settings.pool().chunkBytes(),
                settings.checkpointers());
    }

    /**
     * Answers, if that was an introduction, and gives the answer.
     *
     * @param underWay the migrations that take room here already
     */
    Optional<Visitor> answer(SessionEvent first, ControlLink link, Collection<Incoming> underWay) throws IOException {
        if (!(first instanceof SessionEvent.Said said) || !(said.message() instanceof Introduce introduce)) {
            return Optional.empty();
        }
        RoomHere left = RoomHere.of(node.facts(), settings, underWay);
        NodeFacts here = left.node();
        List<Finding> findings = new ArrayList<>(tool(introduce.job(), here));
        Optional<Checkpointer> tool = settings.checkpointers().stream()
                .filter(one -> one.name().equals(introduce.job().checkpointer()))
                .findFirst();
        PairCheck.findings(
                        introduce.node(),
                        introduce.job(),
                        here,
                        tool.map(Checkpointer::restartNeeds).orElse(RestartNeeds.UNKNOWN),
                        tool.map(Checkpointer::readingMode).orElse(ReadingMode.STREAMED),
                        left.room())
                .forEach(finding -> findings.add(
                        settings.ignoredChecks().contains(finding.check()) ? finding.atMostAWarning() : finding));
        for (Finding finding : findings) {
            if (finding.level() == Finding.Level.WARN) {
                LOG.warn("{} of {}: {}", finding.check(), introduce.node().hostName(), finding.sentence());
            }
        }
        link.send(new Introduced(here, findings));
        return Optional.of(new Visitor(introduce.job(), findings));
    }

    private static List<Finding> tool(JobFacts job, NodeFacts here) {
        if (job.checkpointer().isEmpty()) {
            return List.of();
        }
        for (NodeFacts.Tool tool : here.tools()) {
            if (tool.name().equals(job.checkpointer())) {
                return List.of(
                        tool.available()
                                ? Finding.ok("checkpointer", tool.name() + ": " + tool.detail())
                                : Finding.fail("checkpointer", tool.name() + ": " + tool.detail(), ""));
            }
        }
        return List.of(Finding.fail(
                "checkpointer",
                "this node is not configured to restore images of checkpointer " + job.checkpointer(),
                "write [checkpointers." + job.checkpointer() + "] into its configuration"));
    }

    /** Every reason against a migration, out of the introduction before it. */
    List<String> reasonsAgainst(Begin begin, Optional<Visitor> heard) {
        if (heard.isEmpty()) {
            return List.of("the source has not said what it is: install the same release on both nodes");
        }
        if (!begin.checkpointer().equals(heard.get().job().checkpointer())) {
            return List.of("it names another checkpointer than its introduction did: the source is broken");
        }
        return heard.get().findings().stream()
                .filter(finding -> finding.level() == Finding.Level.FAIL
                        && !finding.check().equals("chunk"))
                .map(Finding::sentence)
                .toList();
    }
}
