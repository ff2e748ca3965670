package io.ppmr.checkpoint;

import io.ppmr.os.ProcFields;
import io.ppmr.os.ProcFolder;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Reads the rights of a process's threads. What the kernel shows of a thread is read for each, and made into rights and
 * words only where no thread before showed the same: most threads of a crowd do. Any thread, several at once.
 */
final class ThreadRightsReader {
    /** Different rights of one process that are remembered. */
    private static final int MOST = 64;

    private static final int TEXT_CHARS = 512;

    private final ProcessRights common;
    private final ConcurrentMap<String, Read> known = new ConcurrentHashMap<>();

    /**
     * The rights of a thread, with the number of the first thread that had the same.
     *
     * @param rights for the rank's summary
     * @param words of them, without a number
     */
    record Read(ThreadRights rights, String words) {}

    ThreadRightsReader(ProcessRights common) {
        this.common = common;
    }

    /** Reads those of a thread, by its status. */
    Read read(LivingThread thread, ProcFields status) throws IOException {
        List<String> namespaces = namespaces(thread);
        StringBuilder shown = new StringBuilder(TEXT_CHARS);
        for (String field : ProcessRights.FIELDS) {
            shown.append(status.value(field).orElse("")).append('\n');
        }
        shown.append(namespaces).append(thread.nice()).append('\n').append(thread.realtimePriority());
        String key = shown.append('\n').append(thread.policy()).toString();
        Read before = known.get(key);
        if (before != null) {
            return before;
        }
        ThreadRights rights = common.thread(thread, status, namespaces);
        Read read = new Read(rights, rights.words());
        if (known.size() < MOST) {
            known.put(key, read);
        }
        return read;
    }

    /** Returns the texts of its links in the order of {@link ProcessRights#OF_THREAD}. */
    private static List<String> namespaces(LivingThread thread) throws IOException {
        try (ProcFolder folder = thread.folder("ns")) {
            return ProcessRights.namespacesOfThread(folder);
        }
    }
}
