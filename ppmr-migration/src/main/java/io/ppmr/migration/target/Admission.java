package io.ppmr.migration.target;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.checkpoint.Checkpointer.StreamedForm;
import io.ppmr.checkpoint.FillingCopies;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.fuse.MountException;
import io.ppmr.linux.Accounts;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.PairCheck;
import io.ppmr.migration.node.PairCheck.TargetCapacity;
import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.protocol.control.ControlMessage.Introduce;
import io.ppmr.protocol.control.ControlMessage.Introduced;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.TransportChoice;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides whether a requested migration is accepted. First, the source sends its facts and those of the job. This node
 * answers with its own facts and the findings of their comparison. Then it has every reason against the requested
 * migration. The originals are still unchanged. Immutable, for any thread.
 */
final class Admission {
    private static final Logger LOG = LoggerFactory.getLogger(Admission.class);
    private static final int MAX_DATA_CONNECTIONS = 64;

    private final TargetSettings settings;
    private final TransportChoice transports;
    private final Supplier<NodeFacts> node;
    private final RankSurroundings surroundings;
    private final Supplier<Optional<MountException>> mountLoss;

    /**
     * @param node returns the present facts of this node
     *
     * @param surroundings decides whether a pod can continue here
     * @param mountLoss returns why this node's mount is gone, if it is
     */
    Admission(
            TargetSettings settings,
            TransportChoice transports,
            Supplier<NodeFacts> node,
            RankSurroundings surroundings,
            Supplier<Optional<MountException>> mountLoss) {
        this.mountLoss = mountLoss;
        this.surroundings = surroundings;
        this.settings = settings;
        this.transports = transports;
        this.node = node;
    }

    /**
     * The announcement of a source, with the findings against it.
     *
     * @param job the job as it would arrive; its streamable memory is 0 if this node requires all of it as images
     * @param tool the tool for the restore, in the form of its arrival, or empty if there is none
     * @param stagingBytes room in pool and staging for one more migration
     */
    record Introduction(JobFacts job, List<Finding> findings, Optional<Checkpointer> tool, long stagingBytes) {}

    /**
     * The room on this node for one more migration. Current migrations have been promised the bytes that they still
     * need. The disk of staging may be fuller than its limit. Immutable.
     *
     * @param node this node's facts, with the staging for one more migration
     * @param room its other limits
     */
    record AvailableRoom(NodeFacts node, TargetCapacity room) {
        private static final Set<String> MEMORY = Set.of("tmpfs", "ramfs");
        private static final long MIB = 1 << 20;

        /**
         * Returns the present room.
         *
         * @param node the node's facts
         * @param underWay the migrations that arrive now
         * @param fillingBytes memory that copies may still need which run before they are whole
         */
        static AvailableRoom of(
                NodeFacts node, TargetSettings settings, Collection<ArrivalAccount> underWay, long fillingBytes) {
            Path directory = settings.transfer().stagingDirectory();
            boolean inMemory = false;
            long freeBytes = 0;
            try {
                FileStore store = Files.getFileStore(directory);
                inMemory = MEMORY.contains(store.type());
                freeBytes = store.getUsableSpace();
            } catch (IOException e) {
                LOG.warn("staging in {} has no room: {}", directory, e.getMessage());
            }
            long promisedStagingBytes = underWay.stream()
                    .mapToLong(ArrivalAccount::promisedStagingBytes)
                    .sum();
            boolean takesMemory = inMemory;
            long promisedBytes = underWay.stream()
                            .mapToLong(incoming -> incoming.promisedMemoryBytes(takesMemory))
                            .sum()
                    + fillingBytes;
            long limitBytes = node.stagingBytes();
            long leftBytes = Math.max(0, freeBytes - promisedStagingBytes);
            String why = leftBytes >= limitBytes
                    ? ""
                    : ", because " + directory + " has " + freeBytes / MIB + " MiB left"
                            + (promisedStagingBytes > 0
                                    ? ", of which " + promisedStagingBytes / MIB + " MiB are for migrations under way"
                                    : "");
            NodeFacts here = node.withStaging(Math.min(limitBytes, leftBytes));
            return new AvailableRoom(here, new TargetCapacity(inMemory, promisedBytes, why));
        }
    }

    /** Returns the memory that this node has left, in bytes. */
    long availableBytes() {
        return node.get().availableBytes();
    }

    /**
     * Answers an introduction, and returns it with the answer's findings. Returns empty for any other message.
     *
     * @param underWay the migrations that occupy room here already
     */
    Optional<Introduction> answer(SessionEvent first, ControlLink link, Collection<ArrivalAccount> underWay)
            throws IOException {
        if (!(first instanceof SessionEvent.MessageReceived received)
                || !(received.message() instanceof Introduce introduce)) {
            return Optional.empty();
        }
        AvailableRoom left = AvailableRoom.of(node.get(), settings, underWay, FillingCopies.leftBytes());
        NodeFacts here = left.node();
        List<Finding> findings = new ArrayList<>(tool(introduce.job(), here));
        JobFacts job = introduce.job();
        Optional<Checkpointer> tool = checkpointer(job.checkpointer());
        tool.flatMap(restarting -> whyNotFrom(introduce.node(), introduce.job().checkpointer(), restarting))
                .ifPresent(why -> findings.add(Finding.fail(
                        "checkpointer", why, "install the same version on both nodes, or a later one here")));
        if (!job.pods().isEmpty()) {
            findings.addAll(surroundings.findings(job.pods().values()));
        }
        if (tool.isPresent() && job.streamableBytes() > 0) {
            StreamedForm form = tool.get().streamedForm();
            JobFacts offered = job;
            job = form.form().isEmpty() ? offered.sent(MemoryWay.IMAGES) : fitting(offered, here.stagingBytes());
            findings.add(pages(offered, job, form, here.stagingBytes()));
            tool = form(tool.get(), form, job);
        }
        PairCheck.findings(
                        introduce.node(),
                        job,
                        here,
                        tool.map(Checkpointer::restartNeeds).orElse(RestartNeeds.UNKNOWN),
                        tool.map(Checkpointer::readingMode).orElse(ReadingMode.STREAMED),
                        left.room())
                .forEach(finding -> findings.add(
                        settings.rules().ignoredChecks().contains(finding.check()) ? finding.asWarning() : finding));
        for (Finding finding : findings) {
            if (finding.level() == Finding.Level.WARN) {
                LOG.warn("{} of {}: {}", finding.check(), introduce.node().hostName(), finding.sentence());
            }
        }
        link.send(new Introduced(here, job.offer(), findings));
        return Optional.of(new Introduction(job, findings, tool, here.stagingBytes()));
    }

    private static Optional<String> whyNotFrom(NodeFacts source, String name, Checkpointer restarting) {
        return source.tools().stream()
                .filter(tool -> tool.available() && tool.name().equals(name))
                .findFirst()
                .flatMap(tool -> restarting.whyNotFrom(tool.detail()));
    }

    /** Returns the job as it can be sent to a node that streams: precopied memory needs room in staging. */
    private static JobFacts fitting(JobFacts offered, long stagingBytes) {
        return offered.offer() == MemoryWay.PRECOPIED && offered.waitingBytes() > stagingBytes
                ? offered.sent(MemoryWay.STREAMED)
                : offered;
    }

    /** Returns the tool in the form in which it restores such a job. */
    private static Optional<Checkpointer> form(Checkpointer tool, StreamedForm form, JobFacts job) {
        return switch (job.offer()) {
            case IMAGES -> Optional.of(tool);
            case STREAMED -> form.form();
            case PRECOPIED -> tool.precopiedForm(job.storeBytes());
        };
    }

    private static Finding pages(JobFacts offered, JobFacts job, StreamedForm form, long stagingBytes) {
        long streamableMib = offered.streamableBytes() / AvailableRoom.MIB;
        return Finding.ok(
                Finding.PAGES,
                switch (job.offer()) {
                    case IMAGES -> "the job's memory is sent as images: " + form.whyNot();
                    case PRECOPIED -> streamableMib + " MiB of the job can be copied here while it computes";
                    case STREAMED ->
                        streamableMib + " MiB of the job can be streamed here"
                                + (offered.offer() == MemoryWay.STREAMED
                                        ? ""
                                        : ", and not be copied while it computes, since its memory and its images need "
                                                + offered.waitingBytes() / AvailableRoom.MIB
                                                + " MiB in pool and staging, which have room for "
                                                + stagingBytes / AvailableRoom.MIB + " MiB");
                });
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
                "write [checkpointers." + job.checkpointer() + "] to its configuration"));
    }

    /** Returns every reason against the migration, or null. */
    String refusal(Begin begin, Optional<Introduction> introduction) {
        List<String> reasons = new ArrayList<>();
        mountLoss.get().ifPresent(loss -> reasons.add(loss.getMessage()));
        if (begin.transfer().chunkBytes() != settings.pool().chunkBytes()) {
            reasons.add("its chunks have " + begin.transfer().chunkBytes() + " bytes, this node's "
                    + settings.pool().chunkBytes() + ": configure the same pool.chunk on both nodes; if it is"
                    + " \"auto\" on both, the same pool.size");
        }
        int connections = begin.transfer().dataConnections();
        if (connections < 1 || connections > MAX_DATA_CONNECTIONS) {
            reasons.add(
                    "it requests " + connections + " data connections; the limits are 1 and " + MAX_DATA_CONNECTIONS);
        }
        if (begin.ranks().isEmpty()
                || Set.copyOf(begin.ranks()).size() != begin.ranks().size()) {
            reasons.add("its plan is empty, or has a rank twice");
        }
        JobUser user = new JobUser(begin.uid(), begin.gid());
        whyNotFor(user).ifPresent(reasons::add);
        checkpointer(begin.checkpointer())
                .filter(tool -> !settings.tools().trusts(user, tool))
                .ifPresent(tool -> reasons.add("checkpointer " + tool.name()
                        + " restarts as root and opens the image's paths as root, and this node does not"
                        + " trust user " + user.uid() + " with that. Remedy: add the user to trusted_users of"
                        + " [checkpointers." + tool.name() + "] in this target's configuration, or move the job by a"
                        + " checkpointer that runs as the job's user (for CRIU: as_job_user = true at both nodes)"));
        introduction
                .flatMap(Introduction::tool)
                .filter(tool -> tool.readingMode() == ReadingMode.RETAINED)
                .filter(tool -> settings.transfer().stagingLimitBytes() == 0)
                .ifPresent(tool -> reasons.add("images of checkpointer " + tool.name()
                        + " wait in staging, and this node has none (staging.limit = 0). Remedy: set staging.limit of"
                        + " this target to the size of the largest image"));
        if (!begin.migrationId().matches("[A-Za-z0-9_-]{1,64}")) {
            reasons.add("its name has other characters than letters, digits, '-' and '_'");
        }
        String transportRefusal = transports.refusal(begin.transfer().transports());
        if (transportRefusal != null) {
            reasons.add(transportRefusal);
        }
        reasons.addAll(reasonsAgainst(begin, introduction));
        return reasons.isEmpty() ? null : String.join("; ", reasons);
    }

    /** Returns why this node does nothing for a user, or empty if it may. */
    Optional<String> whyNotFor(JobUser user) {
        return user.uid() == 0 && !settings.rules().allowRootJobs()
                ? Optional.of("its processes belong to root, which this node does not restore (allow_root_jobs)")
                : reasonAgainst(user);
    }

    /**
     * Returns the reason against a user. A peer sends numbers. Only this node's own user database decides the groups of
     * a user.
     */
    private Optional<String> reasonAgainst(JobUser user) {
        if (user.uid() == JobUser.ofService().uid()) {
            return user.equals(JobUser.ofService())
                    ? Optional.empty()
                    : Optional.of("it assigns the service's own user " + user.uid() + " to group " + user.gid());
        }
        try {
            Optional<Set<Integer>> groups = Accounts.groupsOf(user.uid());
            if (groups.isEmpty()) {
                return settings.rules().unknownUsers() && user.gid() != 0
                        ? Optional.empty()
                        : Optional.of("this node's user database has no user " + user.uid() + ", and the source reports"
                                + " its group as " + user.gid() + ". Remedy: give this node the user database of the"
                                + " source, or set unknown_users = true in its configuration, which accepts any"
                                + " group except root's");
            }
            return groups.get().contains(user.gid())
                    ? Optional.empty()
                    : Optional.of("the source assigns user " + user.uid() + " to group " + user.gid()
                            + ", but this node's user database does not. Remedy: give both nodes the same user"
                            + " database, or correct the job's group");
        } catch (IOException e) {
            return Optional.of(e.getMessage() + ", so the group of the job's user is unproved");
        }
    }

    /** Returns every reason against a migration that follows from its introduction. */
    private List<String> reasonsAgainst(Begin begin, Optional<Introduction> introduction) {
        if (introduction.isEmpty()) {
            return List.of("the source has not introduced itself: install the same release on both nodes");
        }
        if (!begin.checkpointer().equals(introduction.get().job().checkpointer())) {
            return List.of("its checkpointer differs from its introduction: the source is broken");
        }
        Map<Integer, PodFacts> ranks = introduction.get().job().pods();
        if (!ranks.isEmpty()
                && (!ranks.keySet().equals(Set.copyOf(begin.ranks()))
                        || ranks.values().stream()
                                .anyMatch(pod -> pod.uid() != begin.uid() || pod.gid() != begin.gid()))) {
            return List.of("its user or its ranks differ from its introduction of the pods: the source" + " is broken");
        }
        Optional<String> carried = whyNotCarried(begin, introduction.get());
        if (carried.isPresent()) {
            return List.of(carried.get());
        }
        return introduction.get().findings().stream()
                .filter(finding -> finding.level() == Finding.Level.FAIL
                        && !finding.check().equals("chunk"))
                .map(Finding::sentence)
                .toList();
    }

    /** Returns why the files that move with a job have no room. They wait in staging with its image. */
    private Optional<String> whyNotCarried(Begin begin, Introduction introduction) {
        if (begin.transfer().carriedBytes() > settings.carry().copyLimit()) {
            return Optional.of("files of the source's node with "
                    + begin.transfer().carriedBytes() + " bytes would move with"
                    + " the job, and this node's copy_limit is "
                    + settings.carry().copyLimit() + ". Remedy: raise copy_limit in [files] of its configuration");
        }
        long waitingBytes = introduction.job().waitingBytes() + begin.transfer().carriedBytes();
        return begin.transfer().carriedBytes() == 0 || waitingBytes <= introduction.stagingBytes()
                ? Optional.empty()
                : Optional.of("an image of the job and its own files have about " + waitingBytes
                        + " bytes, and pool and staging have room for " + introduction.stagingBytes()
                        + ". Remedy: raise staging.limit of this node, or share the files' folder");
    }

    /** Returns the tool that restores the images of a checkpointer, if this node is configured for it. */
    private Optional<Checkpointer> checkpointer(String name) {
        return settings.tools().checkpointers().stream()
                .filter(candidate -> candidate.name().equals(name))
                .findFirst();
    }
}
