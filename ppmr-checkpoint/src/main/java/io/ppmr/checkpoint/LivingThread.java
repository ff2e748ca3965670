package io.ppmr.checkpoint;

import io.ppmr.checkpoint.RankRights.Taker;
import io.ppmr.os.ProcFields;
import io.ppmr.os.ProcFolder;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * A thread that has not ended, by its folder among those of its process. Its {@code stat} is read once. Immutable; any
 * thread reads it as long as the folder is open.
 *
 * @param threads the folder of the process's threads
 * @param name the thread's folder in there, which is its number
 * @param words what {@code stat} has behind the name in parentheses, proc_pid_stat(5)
 */
record LivingThread(ProcFolder threads, String name, List<String> words) {
    /** No file of a thread's own that is read as a whole is longer. */
    private static final int LONGEST_FILE = 1 << 20;

    private static final int STATE = 0;
    private static final int NICE = 16;
    private static final int REALTIME_PRIORITY = 37;
    private static final int POLICY = 38;

    /** Tells each thread of a process. */
    static void each(ProcessIdentity process, Taker<LivingThread> taker) throws IOException, CheckpointException {
        FolderLooks.<LivingThread>threads(process.pid(), LivingThread::of, thread -> {
            taker.take(thread);
            return true;
        });
    }

    /** Returns one of them; empty if it has ended. */
    static Optional<LivingThread> of(ProcFolder threads, String name) throws IOException {
        return threads.beginning(name + "/stat")
                // The name may hold anything, also blanks and parentheses.
                .map(stat -> Arrays.asList(
                        stat.substring(stat.lastIndexOf(')') + 2).trim().split(" ", -1)))
                .filter(words ->
                        !words.get(STATE).equals("Z") && !words.get(STATE).equals("X"))
                .map(words -> new LivingThread(threads, name, words));
    }

    int number() {
        return Integer.parseInt(name);
    }

    int nice() {
        return Integer.parseInt(words.get(NICE));
    }

    int realtimePriority() {
        return Integer.parseInt(words.get(REALTIME_PRIORITY));
    }

    int policy() {
        return Integer.parseInt(words.get(POLICY));
    }

    /** Reads its {@code status}, proc_pid_status(5). */
    ProcFields status() throws IOException {
        return threads.text(name + "/status", LONGEST_FILE)
                .map(ProcFields::new)
                .orElseThrow(() -> new NoSuchFileException(threads + "/" + name));
    }

    /** Opens a folder of its own; the caller closes it. */
    ProcFolder folder(String within) throws IOException {
        return threads.folder(name + "/" + within);
    }
}
