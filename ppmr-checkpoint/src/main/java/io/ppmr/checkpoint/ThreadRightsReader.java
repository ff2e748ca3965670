package io.ppmr.checkpoint;

import io.ppmr.linux.ProcFields;
import io.ppmr.linux.Scheduling;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Reads the rights of a process's threads. The kernel's text is read for each thread. It is parsed only if no earlier
 * thread had an equal text, because most threads of a large process have. Any thread, several at once.
 */
final class ThreadRightsReader {
    /** Maximum number of different rights of one process that are kept. */
    private static final int MOST = 64;

    /** CAP_SYS_ADMIN of capabilities(7). Without it no thread leaves a namespace. */
    private static final long MAY_LEAVE = 1L << 21;

    private static final int HEX = 16;

    private final ProcessRights common;
    private final boolean areAlike;
    private volatile List<String> namespaces = List.of();
    private final ConcurrentMap<String, Read> known = new ConcurrentHashMap<>();

    /**
     * The rights of a thread, with the words for its line.
     *
     * @param rights rights for the rank's summary
     * @param words their words, without a number
     */
    record Read(ThreadRights rights, String words) {}

    /**
     * @param areAlike whether all threads were found in the same namespaces before; then only threads that can have
     *     left them since are checked
     */
    ThreadRightsReader(ProcessRights common, boolean areAlike) {
        this.common = common;
        this.areAlike = areAlike;
    }

    /** Reads the rights of a thread. */
    Read read(LivingThread thread, Scheduling scheduling) throws IOException {
        ProcFields status = thread.status();
        List<String> own = namespacesOf(thread);
        String key = status.lines(ProcessRights.FIELDS) + own + scheduling;
        Read before = known.get(key);
        if (before != null) {
            return before;
        }
        ThreadRights rights = common.thread(thread, scheduling, own);
        Read read = new Read(rights, rights.words());
        if (known.size() < MOST) {
            known.put(key, read);
        }
        return read;
    }

    private List<String> namespacesOf(LivingThread thread) throws IOException {
        long may = Long.parseUnsignedLong(thread.status().value("CapPrm").orElse("0"), HEX);
        if (!areAlike || (may & MAY_LEAVE) != 0) {
            return ProcessRights.namespacesOf(thread);
        }
        if (namespaces.isEmpty()) {
            namespaces = ProcessRights.namespacesOf(thread);
        }
        return namespaces;
    }
}
