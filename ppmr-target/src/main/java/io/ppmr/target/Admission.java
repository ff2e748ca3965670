package io.ppmr.target;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ReadingMode;
import io.ppmr.protocol.ControlMessage.Begin;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Whether a migration that a source asks for can be taken; nothing has been done to its originals yet. For any thread.
 */
final class Admission {
    private static final int MAX_DATA_CONNECTIONS = 64;

    private final TargetSettings settings;
    private final TargetTransport transports;
    private final Introduction introduction;

    Admission(TargetSettings settings, TargetTransport transports, Introduction introduction) {
        this.settings = settings;
        this.transports = transports;
        this.introduction = introduction;
    }

    /** Every reason why the migration is not taken, or null. */
    String refusal(Begin begin, Optional<Introduction.Visitor> heard) {
        List<String> reasons = new ArrayList<>();
        if (begin.chunkBytes() != settings.pool().chunkBytes()) {
            reasons.add("its chunks have " + begin.chunkBytes() + " bytes, this node's "
                    + settings.pool().chunkBytes() + ": configure the same pool.chunk on both nodes");
        }
        if (begin.dataConnections() < 1 || begin.dataConnections() > MAX_DATA_CONNECTIONS) {
            reasons.add("it wants " + begin.dataConnections() + " data connections: 1 to " + MAX_DATA_CONNECTIONS
                    + " are served");
        }
        if (begin.place() < 0
                || begin.place() >= begin.participants().size()
                || Set.copyOf(begin.participants()).size()
                        != begin.participants().size()) {
            reasons.add("its plan does not name each participant once, this one among them");
        }
        if (begin.ranks().isEmpty()
                || Set.copyOf(begin.ranks()).size() != begin.ranks().size()) {
            reasons.add("its plan names no rank, or one twice");
        }
        if (begin.uid() == 0 && !settings.allowRootJobs()) {
            reasons.add("its processes belong to root, and this node restores none of root's (allow_root_jobs)");
        }
        JobUser user = new JobUser(begin.uid(), begin.gid());
        checkpointer(begin)
                .filter(tool -> !settings.trusts(user, tool))
                .ifPresent(tool -> reasons.add("checkpointer " + tool.name()
                        + " restarts as root and opens the paths that the image names as root, and this node does not"
                        + " trust user " + user.uid() + " with that. Remedy: name the user in trusted_users of"
                        + " [checkpointers." + tool.name() + "] in this target's configuration, or move the job by a"
                        + " checkpointer that runs as the job's user"));
        if (!begin.migrationId().matches("[A-Za-z0-9_-]{1,64}")) {
            reasons.add("its name is not made of letters, digits, '-' and '_'");
        }
        String transportRefusal = transports.refusal(begin);
        if (transportRefusal != null) {
            reasons.add(transportRefusal);
        }
        reasons.addAll(introduction.reasonsAgainst(begin, heard));
        return reasons.isEmpty() ? null : String.join("; ", reasons);
    }

    /** Whether its image waits here as a whole before it is read. */
    boolean retains(Begin begin) {
        return checkpointer(begin).map(Checkpointer::readingMode).orElse(ReadingMode.STREAMED) == ReadingMode.RETAINED;
    }

    /** What restores its images, if this node is configured for it. */
    Optional<Checkpointer> checkpointer(Begin begin) {
        return settings.checkpointers().stream()
                .filter(candidate -> candidate.name().equals(begin.checkpointer()))
                .findFirst();
    }
}
