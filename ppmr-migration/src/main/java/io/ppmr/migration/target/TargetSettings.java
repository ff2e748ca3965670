package io.ppmr.migration.target;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.files.CarryPolicy;
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
 * Everything that a target's service is told, resolved once.
 *
 * @param listen where sources connect to
 * @param mountPoint where the images are shown
 * @param workDirectory for the restart commands' own files, outside the mount
 * @param pool size of the pool and its chunks
 * @param transfer what bounds a transfer
 * @param authenticator how peers prove themselves
 * @param checkpointers those whose images this node restores
 * @param restartDeadline how long a restart may take in all
 * @param silenceLimit how long a connected source may say nothing
 * @param migrations how many migrations it takes part in at once, each with a pool of its own
 * @param journal the directory of the journal
 * @param fence how a lost source is proved off; without it prepared ranks wait for the source or for an operator
 * @param allowRootJobs whether a job of root may be restored
 * @param unknownUsers whether a job may be restored whose user this node's user database does not know; its group is
 *     then believed as the source names it
 * @param ignoredChecks of what is compared with a source, what does not count as a reason to refuse
 * @param resumed what tells a job that its ranks run here after a commit, by the job's name or {@link JobCommand#ANY}
 * @param reconnects what tells a job's library where its ranks are when this target decides without the source, by the
 *     job's name or {@link JobCommand#ANY}
 * @param trustedUsers the users whose jobs a checkpointer that restarts as root restores here, by its name; root opens
 *     for them whatever paths an image names
 * @param carry which files of jobs may be put at their places here
 * @param rankFiles how many files a restored rank may have open or mapped in all
 */
public record TargetSettings(
        InetSocketAddress listen,
        Path mountPoint,
        Path workDirectory,
        PoolGeometry pool,
        TransferSettings transfer,
        PeerAuthenticator authenticator,
        List<Checkpointer> checkpointers,
        Duration restartDeadline,
        Duration silenceLimit,
        int migrations,
        Path journal,
        Optional<Fence> fence,
        boolean allowRootJobs,
        boolean unknownUsers,
        Set<String> ignoredChecks,
        Map<String, JobCommand> resumed,
        Map<String, JobCommand> reconnects,
        Map<String, Set<Integer>> trustedUsers,
        CarryPolicy carry,
        int rankFiles) {
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

    public TargetSettings {
        checkpointers = List.copyOf(checkpointers);
        ignoredChecks = Set.copyOf(ignoredChecks);
        resumed = Map.copyOf(resumed);
        reconnects = Map.copyOf(reconnects);
        trustedUsers = Map.copyOf(trustedUsers);
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

    Optional<JobCommand> resumed(String job) {
        return Optional.ofNullable(resumed.getOrDefault(job, resumed.get(JobCommand.ANY)));
    }

    Optional<JobCommand> reconnect(String job) {
        return Optional.ofNullable(reconnects.getOrDefault(job, reconnects.get(JobCommand.ANY)));
    }
}
