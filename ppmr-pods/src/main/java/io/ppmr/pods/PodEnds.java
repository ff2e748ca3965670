package io.ppmr.pods;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.LibC;
import io.ppmr.linux.ProcessDescriptor;
import io.ppmr.linux.ProcessIdentity;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Watches for the ends of pods, which are no children of this process. It is safe for any thread. It has a thread for
 * each pod, which the kernel wakes only when the pod's init ends, pidfd_open(2).
 */
final class PodEnds {
    private static final Logger LOG = LoggerFactory.getLogger(PodEnds.class);

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
        Optional<ProcessDescriptor> opened = ProcessDescriptor.open(init.pid());
        try {
            // Checked after the descriptor was opened: it cannot refer to a later process with this PID.
            if (opened.isPresent() && processes.isAlive(init) && !opened.get().awaitEnd()) {
                LOG.warn("the end of PID {} is noticed only when pods are listed: {}", init.pid(), LibC.errno());
                return;
            }
        } finally {
            opened.ifPresent(ProcessDescriptor::close);
            synchronized (this) {
                watched.remove(init);
            }
        }
        if (!processes.isAlive(init)) {
            then.run();
        }
    }
}
