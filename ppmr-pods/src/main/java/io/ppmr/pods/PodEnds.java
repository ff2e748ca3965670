package io.ppmr.pods;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.LibC;
import io.ppmr.linux.ProcessIdentity;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashSet;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Watches for the ends of pods, which are no children of this process. It is safe for any thread. It has a thread for
 * each pod, which the kernel wakes only when the pod's init ends, pidfd_open(2).
 */
final class PodEnds {
    private static final Logger LOG = LoggerFactory.getLogger(PodEnds.class);
    private static final int PIDFD_OPEN = 434;
    /** The size of {@code struct pollfd}, and the offset of its requested events. */
    private static final int POLLFD_BYTES = 8;

    private static final int POLLFD_EVENTS_OFFSET = 4;
    private static final short POLLIN = 1;
    private static final int EINTR = 4;

    private final ProcessTable processes;
    /** The processes that a thread waits for. Guarded by this. */
    private final Set<ProcessIdentity> watched = new HashSet<>();

    PodEnds(ProcessTable processes) {
        this.processes = processes;
    }

    /** Calls the task on a thread of its own after a process ended. Does nothing if the process is already watched. */
    synchronized void watch(ProcessIdentity init, Runnable then) {
        if (!watched.add(init)) {
            return;
        }
        Thread thread = new Thread(() -> await(init, then), "ppmr-pod-end");
        thread.setDaemon(true);
        thread.start();
    }

    private void await(ProcessIdentity init, Runnable then) {
        int descriptor = (int) LibC.CALLS.syscall(PIDFD_OPEN, init.pid(), 0, 0, 0);
        try {
            // Checked after the descriptor was opened: it cannot refer to a later process with this PID.
            if (descriptor >= 0 && processes.isAlive(init) && !awaitReadable(descriptor)) {
                LOG.warn("the end of PID {} is noticed only when pods are listed: {}", init.pid(), LibC.errno());
                return;
            }
        } finally {
            if (descriptor >= 0) {
                LibC.CALLS.close(descriptor);
            }
            synchronized (this) {
                watched.remove(init);
            }
        }
        if (!processes.isAlive(init)) {
            then.run();
        }
    }

    private static boolean awaitReadable(int descriptor) {
        ByteBuffer asked = ByteBuffer.allocate(POLLFD_BYTES).order(ByteOrder.nativeOrder());
        asked.putInt(0, descriptor);
        asked.putShort(POLLFD_EVENTS_OFFSET, POLLIN);
        int answers;
        do {
            answers = LibC.CALLS.poll(asked.array(), 1, -1);
        } while (answers < 0 && LibC.errno() == EINTR);
        return answers > 0;
    }
}
