package io.ppmr.checkpoint;

import io.ppmr.checkpoint.state.PipeOwner;
import io.ppmr.checkpoint.state.SocketSettings;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives copies, which are held, the settings of their originals' threads and sockets that a restart leaves out, and
 * their pipes. A node may deny one, as it has other processors: then the log says what the copy has not, since the job
 * can go on without. Stateless, for any thread.
 */
final class SettingsRestore {
    private static final Logger LOG = LoggerFactory.getLogger(SettingsRestore.class);
    /** Of a rank that has more the first ones are told. */
    private static final int MOST_TOLD = 10;

    private SettingsRestore() {}

    /**
     * Gives the copies of a rank what the source read of their originals.
     *
     * @param user the job's user, who alone is given pipes
     */
    static void restore(HeldRank restored, RankRights original, JobUser user) throws CheckpointException {
        if (!original.summary().hasSettings()) {
            return;
        }
        Map<Integer, ThreadSettings> threads = new HashMap<>();
        Map<Integer, List<SocketSettings>> sockets = new HashMap<>();
        Map<Integer, List<PipeOwner>> pipes = new HashMap<>();
        read(original, threads, sockets, pipes);
        List<String> failed = new ArrayList<>();
        for (ProcessIdentity process : restored.processes()) {
            for (String thread : RankRights.threadIds(process)) {
                try {
                    int number = Integer.parseInt(thread);
                    int id = RankRights.ownNumber(Path.of("/proc", thread));
                    ThreadSettings settings = threads.remove(id);
                    if (settings != null) {
                        settings.set(number).forEach(what -> failed.add("thread " + id + " " + what));
                    }
                    for (SocketSettings socket :
                            Objects.requireNonNullElse(sockets.remove(id), List.<SocketSettings>of())) {
                        socket.set(number).forEach(what -> failed.add("process " + id + ": " + what));
                    }
                    for (PipeOwner pipe : Objects.requireNonNullElse(pipes.remove(id), List.<PipeOwner>of())) {
                        // A source says whose job it is; it gives nothing to other users of this node.
                        if (pipe.uid() == user.uid()) {
                            pipe.set(number).ifPresent(what -> failed.add("process " + id + ": " + what));
                        }
                    }
                } catch (IOException e) {
                    throw new CheckpointException(
                            "the settings of restored thread " + thread + " cannot be set: " + e
                                    + ". Remedy: look at why it ended",
                            e);
                }
            }
        }
        threads.keySet().forEach(id -> failed.add("no thread is restored as " + id + ", which had settings"));
        sockets.keySet().forEach(id -> failed.add("no process is restored as " + id + ", whose sockets had options"));
        failed.stream()
                .limit(MOST_TOLD)
                .forEach(what -> LOG.warn("rank {}: the copy is not as its original was: {}", restored.rank(), what));
        if (failed.size() > MOST_TOLD) {
            LOG.warn("rank {}: the same holds for {} more", restored.rank(), failed.size() - MOST_TOLD);
        }
    }

    private static void read(
            RankRights original,
            Map<Integer, ThreadSettings> threads,
            Map<Integer, List<SocketSettings>> sockets,
            Map<Integer, List<PipeOwner>> pipes)
            throws CheckpointException {
        try (SortedLines.Cursor lines = original.open()) {
            for (String line = lines.next(); line != null; line = lines.next()) {
                if (RightsLine.isThreadSettings(line)) {
                    ThreadSettings settings = RightsLine.threadSettings(line);
                    threads.put(settings.id(), settings);
                } else if (RightsLine.isSocketSettings(line)) {
                    SocketSettings settings = RightsLine.socketSettings(line);
                    sockets.computeIfAbsent(settings.pid(), unknown -> new ArrayList<>())
                            .add(settings);
                } else if (RightsLine.isPipeOwner(line)) {
                    PipeOwner owner = RightsLine.pipeOwner(line);
                    pipes.computeIfAbsent(owner.pid(), unknown -> new ArrayList<>())
                            .add(owner);
                }
            }
        } catch (IOException e) {
            throw RankRights.unreadable(e);
        }
    }
}
