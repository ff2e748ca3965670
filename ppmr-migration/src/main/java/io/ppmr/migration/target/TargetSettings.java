package io.ppmr.migration.target;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The settings of a target's service, resolved once. Immutable.
 *
 * @param listen address for sources
 * @param node settings that a source has, too
 * @param journal directory of the journal
 * @param pool size of the pool and its chunks
 * @param transfer limits of a transfer
 * @param authenticator authenticates peers
 * @param tools checkpointers whose images this node restores
 * @param rules rules for taking part in migrations
 * @param fence proves a lost source off; without it prepared ranks wait for the source or for an operator
 * @param commands commands that notify jobs
 * @param carry the files of jobs that may be placed here
 * @param rankFiles maximum number of open or mapped files of a restored rank
 */
public record TargetSettings(
        InetSocketAddress listen,
        NodeSettings node,
        Path journal,
        PoolGeometry pool,
        TransferSettings transfer,
        PeerAuthenticator authenticator,
        RestoreTools tools,
        TargetRules rules,
        Optional<Fence> fence,
        Commands commands,
        CarryPolicy carry,
        int rankFiles) {
    /**
     * The checkpointers whose images a node restores.
     *
     * @param checkpointers all of them
     * @param trustedUsers for each checkpointer that restarts as root, the users whose jobs it restores; root opens
     *     any path of their images
     */
    public record RestoreTools(List<Checkpointer> checkpointers, Map<String, Set<Integer>> trustedUsers) {
        public RestoreTools {
            checkpointers = List.copyOf(checkpointers);
            trustedUsers = Map.copyOf(trustedUsers);
        }

        /** Makes tools that restart as root only for root's own jobs. */
        public RestoreTools(List<Checkpointer> checkpointers) {
            this(checkpointers, Map.of());
        }

        /**
         * Returns true if this node restores a user's job by this checkpointer. A tool that restarts as the job's user
         * opens only what that user can open. One that restarts as root opens what root can, so the operator must have
         * named the user.
         */
        boolean trusts(JobUser user, Checkpointer checkpointer) {
            return !checkpointer.runAs().restartsAsRoot()
                    || user.uid() == JobUser.ofService().uid()
                    || trustedUsers.getOrDefault(checkpointer.name(), Set.of()).contains(user.uid());
        }
    }

    /**
     * The commands that notify jobs, by the job's name or {@link JobCommand#ANY}.
     *
     * @param resumed commands after a commit, when a job's ranks run here
     * @param reconnects commands for a job's library, with its ranks' places, when this target decides without the
     *     source
     */
    public record Commands(Map<String, JobCommand> resumed, Map<String, JobCommand> reconnects) {
        /** No commands. */
        public static final Commands NONE = new Commands(Map.of(), Map.of());

        public Commands {
            resumed = Map.copyOf(resumed);
            reconnects = Map.copyOf(reconnects);
        }

        Optional<JobCommand> resumed(String job) {
            return Optional.ofNullable(resumed.getOrDefault(job, resumed.get(JobCommand.ANY)));
        }

        Optional<JobCommand> reconnect(String job) {
            return Optional.ofNullable(reconnects.getOrDefault(job, reconnects.get(JobCommand.ANY)));
        }
    }

    /**
     * A command that notifies a job. It is in this target's own configuration, because a target never runs a peer's
     * command.
     *
     * @param words the command, run as the job's user without a shell
     * @param deadline time after which it is killed
     */
    public record JobCommand(List<String> words, Duration deadline) {
        /** The name of the hook for every job without one of its own. */
        public static final String ANY = "any";

        public JobCommand {
            words = List.copyOf(words);
        }
    }
}
