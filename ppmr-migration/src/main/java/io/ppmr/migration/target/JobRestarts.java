package io.ppmr.migration.target;

import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.WorkDirectories;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The restarts of jobs over several nodes at a target: makes new ones, and repeats the releases of an earlier run of
 * the
 * service. Safe for any thread.
 */
public final class JobRestarts {
    private static final Logger LOG = LoggerFactory.getLogger(JobRestarts.class);

    private final TargetContext service;
    private final Set<String> released = ConcurrentHashMap.newKeySet();

    JobRestarts(TargetContext service) {
        this.service = service;
    }

    /** Repeats the releases that an earlier run has noted. Everything else that it restored is ended by now. */
    void recover() throws IOException {
        for (RestartNote note : RestartNote.left(service.settings().journal())) {
            released.add(note.move());
            // A later start would take these pods for those of an interrupted restore.
            Path work = service.settings().node().workDirectory().resolve(note.move());
            if (Files.isDirectory(work)) {
                OrphanedCommand.forget(work);
                WorkDirectories.removeOrWarn(work);
            }
            if (note.isContinued()) {
                continue;
            }
            service.surroundings().attach(note.move());
            service.surroundings().settle(note.move());
            HeldRank pods = HeldRank.recorded(0, note.processes(), note.stopped(), new ProcessTable().snapshot());
            OrphanedCommand.resumeAll(List.of(pods))
                    .forEach((rank, why) -> LOG.warn("{}: not all processes were continued: {}", note.move(), why));
            // They are continued once: later, a migration may hold them.
            note.continued().write(service.settings().journal());
            LOG.info("{}: its release was repeated", note.move());
        }
    }

    /**
     * Returns the moves whose pods are being released, or were when their service ended. Changes nothing.
     *
     * @param journal the directory of a target's journal
     */
    public static List<String> releasingIn(Path journal) throws IOException {
        return RestartNote.in(journal).stream()
                .filter(note -> !note.isContinued())
                .map(RestartNote::move)
                .toList();
    }

    /** Makes a restart. Nothing is touched. */
    public JobRestart of(JobRestart.RestartOrder order) {
        return new JobRestart(service, order);
    }

    /** Returns true if an earlier run of the service has released the pods of a move. */
    public boolean isReleased(String move) {
        return released.contains(move);
    }

    /** Forgets a release, which its caller has noted itself. */
    public void forget(String move) throws IOException {
        released.remove(move);
        RestartNote.forget(service.settings().journal(), move);
    }
}
