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
 * @param listen where sources connect to
 * @param node those that a source has, too
 * @param journal the directory of the journal
 * @param pool size of the pool and its chunks
 * @param transfer what bounds a transfer
 * @param authenticator how peers prove themselves
 * @param tools those whose images this node restores
 * @param rules by which it takes part in migrations
 * @param fence how a lost source is proved off; without it prepared ranks wait for the source or for an operator
 * @param commands by which jobs are told something
 * @param carry which files of jobs may be put at their places here
 * @param rankFiles how many files a restored rank may have open or mapped in all
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
     * @param trustedUsers the users whose jobs a checkpointer that restarts as root restores here, by its name; root
     *     opens for them whatever paths an image names
     */
    public record RestoreTools(List<Checkpointer> checkpointers, Map<String, Set<Integer>> trustedUsers) {
        public RestoreTools {
            checkpointers = List.copyOf(checkpointers);
            trustedUsers = Map.copyOf(trustedUsers);
        }

        /** Those that restart as root for root's own jobs alone. */
        public RestoreTools(List<Checkpointer> checkpointers) {
            this(checkpointers, Map.of());
        }

        /**
         * Returns true if this node restores a user's job by this checkpointer. A tool that restarts as the job's user
         * opens what that user can open; one that restarts as root opens what root can, so the operator must have named
         * the user.
         */
        boolean trusts(JobUser user, Checkpointer checkpointer) {
            return !checkpointer.runAs().restartsAsRoot()
                    || user.uid() == JobUser.ofService().uid()
                    || trustedUsers.getOrDefault(checkpointer.name(), Set.of()).contains(user.uid());
        }
    }

    /**
     * The commands by which jobs are told something, by the job's name or {@link JobCommand#ANY}.
     *
     * @param resumed what tells a job that its ranks run here after a commit
     * @param reconnects what tells a job's library where its ranks are when this target decides without the source
     */
    public record Commands(Map<String, JobCommand> resumed, Map<String, JobCommand> reconnects) {
        /** No job is told anything. */
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
     * A command by which a job is told something. It is of this target's own configuration: a target runs nothing that
     * a peer names.
     *
     * @param words the command, run as the job's user without a shell
     * @param deadline after which it is ended
     */
    public record JobCommand(List<String> words, Duration deadline) {
        /** The name under which stands the hook of every job that has none of its own. */
        public static final String ANY = "any";

        public JobCommand {
            words = List.copyOf(words);
        }
    }
}
