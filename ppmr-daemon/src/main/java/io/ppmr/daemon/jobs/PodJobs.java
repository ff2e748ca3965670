package io.ppmr.daemon.jobs;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.daemon.jobs.AnnouncedJobs.Name;
import io.ppmr.daemon.pods.PodRecord;
import io.ppmr.daemon.pods.Pods;
import io.ppmr.migration.RefusedException;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.os.Accounts;
import io.ppmr.protocol.control.PodFacts;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The pods of this node as jobs of their users, of one rank each, under the names that the users have given them. What
 * is known of them is root's, so nothing is taken on trust from a user. Immutable; for any thread; all is read anew at
 * each call.
 *
 * @param pods those of this node
 * @param checkpointers those of this source's configuration
 */
public record PodJobs(Pods pods, Map<String, Checkpointer> checkpointers) {
    private static final Logger LOG = LoggerFactory.getLogger(PodJobs.class);
    private static final String NUMBER = "\\d{1,10}";

    public PodJobs {
        checkpointers = Map.copyOf(checkpointers);
    }

    /** Lists those that can be moved. */
    List<Name> names() {
        return running().stream()
                .filter(pod -> pods.checkpointerOf(pod).isPresent())
                .map(PodJobs::name)
                .sorted((a, b) -> a.toString().compareTo(b.toString()))
                .toList();
    }

    /** Lists those of one user. */
    List<Name> names(String user) {
        return names().stream().filter(name -> belongsTo(name.uid(), user)).toList();
    }

    private List<PodRecord> running() {
        try {
            return pods.running();
        } catch (IOException e) {
            LOG.warn("the pods of this node cannot be looked at: {}", e.getMessage());
            return List.of();
        }
    }

    private static Name name(PodRecord pod) {
        return new Name(pod.uid(), pod.name());
    }

    private static boolean belongsTo(int uid, String user) {
        try {
            return user.matches(NUMBER)
                    ? Integer.parseUnsignedInt(user) == uid
                    : Accounts.user(user).filter(found -> found.uid() == uid).isPresent();
        } catch (IOException e) {
            LOG.warn("user {} is not known, and moves no pod: {}", user, e.getMessage());
            return false;
        }
    }

    /** Finds the pods that are called so, in short or by their full names. */
    List<Name> named(String wanted, Optional<String> onlyOf) {
        return running().stream()
                .map(PodJobs::name)
                .filter(name -> name.name().equals(wanted) || name.toString().equals(wanted))
                .filter(name -> onlyOf.isEmpty() || belongsTo(name.uid(), onlyOf.get()))
                .toList();
    }

    /** Gives a pod as a job. */
    Optional<ConfiguredJob> find(Name wanted) throws RefusedException {
        Optional<PodRecord> found =
                running().stream().filter(pod -> name(pod).equals(wanted)).findFirst();
        if (found.isEmpty()) {
            return Optional.empty();
        }
        PodRecord pod = found.get();
        Optional<PodFacts> facts = pods.facts(pod);
        Optional<Checkpointer> tool = pods.checkpointerOf(pod).map(checkpointers::get);
        if (facts.isEmpty() || tool.isEmpty()) {
            throw new RefusedException("pod " + wanted + " is not moved: [pods." + pod.template()
                    + "] of this source's configuration names no checkpointer. Remedy: the operator writes there"
                    + " checkpointer = \"NAME\" of a [checkpointers.NAME]");
        }
        return Optional.of(new ConfiguredJob(
                pod.name(),
                new JobUser(pod.uid(), pod.gid()),
                tool.get(),
                List.of(new ConfiguredJob.RankSource(0, pod.init().pid(), null)),
                Map.of(),
                JobHooks.NONE,
                List.of(),
                Optional.empty(),
                facts));
    }
}
