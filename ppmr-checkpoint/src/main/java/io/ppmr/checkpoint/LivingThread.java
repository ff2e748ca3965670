package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ProcessPrivileges.Receiver;
import io.ppmr.linux.ProcFields;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.Scheduling;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.Optional;

/**
 * A thread that has not ended, by its folder in its process's folder of threads. Its {@code status} is read once.
 * Immutable; any thread reads it as long as the folder is open.
 *
 * @param threads the folder of the process's threads
 * @param name the thread's folder in it, which is its number
 * @param status its {@code status}, proc_pid_status(5)
 */
record LivingThread(ProcFolder threads, String name, ProcFields status) {
    /** Maximum length of a thread's file that is read as a whole. */
    private static final int LONGEST_FILE = 1 << 20;

    /** Size of the first read. A status without hundreds of groups fits into it. */
    private static final int ONE_PIECE_CHARS = 4000;

    /** Passes each thread of a process. */
    static void each(ProcessIdentity process, Receiver<LivingThread> receiver) throws IOException, CheckpointException {
        FolderScan.<LivingThread>threads(process.pid(), LivingThread::of, thread -> {
            receiver.take(thread);
            return true;
        });
    }

    /** Returns one of the threads, or empty if it ended. */
    static Optional<LivingThread> of(ProcFolder threads, String name) throws IOException {
        String file = name + "/status";
        Optional<String> text = threads.beginning(file);
        if (text.isPresent() && text.get().length() > ONE_PIECE_CHARS) {
            text = threads.text(file, LONGEST_FILE);
        }
        return text.map(ProcFields::new)
                .filter(LivingThread::lives)
                .map(status -> new LivingThread(threads, name, status));
    }

    private static boolean lives(ProcFields status) {
        String state = status.value("State").orElse("");
        return !state.isEmpty() && state.charAt(0) != 'Z' && state.charAt(0) != 'X';
    }

    int number() {
        return Integer.parseInt(name);
    }

    /** Returns its scheduling. */
    Scheduling scheduling() throws IOException {
        return Scheduling.of(number()).orElseThrow(() -> new NoSuchFileException(threads + "/" + name));
    }

    /** Opens a folder of the thread. The caller closes it. */
    ProcFolder folder(String within) throws IOException {
        return threads.folder(name + "/" + within);
    }
}
