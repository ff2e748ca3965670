package io.ppmr.fuse;

import com.kenai.jffi.MemoryIO;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads that receive, serve and answer requests of one mount. One thread always waits for the next request, for
 * any number of threads blocked in the view up to a limit.
 *
 * <p>This is libfuse's {@code fuse_loop_mt} on Java threads. With libfuse's own threads, jffi attaches the thread to
 * the JVM and detaches it at each call, which creates and registers a {@code Thread} each time. {@link DataRequests}
 * serves reads and writes without libfuse. Libfuse serves all other requests.
 */
final class FuseWorkers {
    private static final Logger LOG = LoggerFactory.getLogger(FuseWorkers.class);
    private static final MemoryIO MEMORY = MemoryIO.getInstance();
    private static final int IDLE_MAX = 10;
    /** Maximum number of calls blocked in the view at a time; far above the number of ranks on a node. */
    static final int WORKERS_MAX = 4096;

    private static final int EINTR = -4;

    private final LibFuse29 library;
    private final DataRequests dataRequests;
    private final long session;
    private final long channel;
    private final long requestBytes;
    private final String name;
    private final WorkerShares shares = new WorkerShares();
    private final AtomicInteger idle = new AtomicInteger();
    private final AtomicInteger running = new AtomicInteger();
    private final AtomicInteger started = new AtomicInteger();
    private final CountDownLatch allEnded = new CountDownLatch(1);

    FuseWorkers(
            LibFuse29 library, DataRequests dataRequests, long session, long channel, long requestBytes, String name) {
        this.library = library;
        this.dataRequests = dataRequests;
        this.session = session;
        this.channel = channel;
        this.requestBytes = requestBytes;
        this.name = name;
    }

    /** Serves until the mount is removed and every call returned from the view. */
    void serve() throws InterruptedException {
        startWorker();
        // No deadline, because this lasts as long as the service. The kernel ends it when the mount is removed or
        // aborted.
        allEnded.await();
    }

    private void startWorker() {
        int now = running.incrementAndGet();
        if (now > WORKERS_MAX) {
            LOG.error(
                    "{}: {} calls are blocked in the filesystem view; further ones wait until one of them ends",
                    name,
                    WORKERS_MAX);
            running.decrementAndGet();
            return;
        }
        idle.incrementAndGet();
        Thread thread = new Thread(this::runWorker, name + " worker " + started.incrementAndGet());
        thread.setDaemon(true);
        try {
            thread.start();
        } catch (OutOfMemoryError e) {
            // The caller still has to serve its request. The next worker that becomes idle tries again.
            LOG.error(
                    "{}: no thread can be started beside the {} that run; raise TasksMax or 'ulimit -u'",
                    name,
                    now - 1,
                    e);
            idle.decrementAndGet();
            endWorker();
        }
    }

    private void endWorker() {
        if (running.decrementAndGet() == 0) {
            allEnded.countDown();
        }
    }

    private void runWorker() {
        long request = MEMORY.allocateMemory(requestBytes, false);
        long buffer = MEMORY.allocateMemory(LibFuse29.FUSE_BUF_BYTES + Long.BYTES, true);
        long channelCell = buffer + LibFuse29.FUSE_BUF_BYTES;
        int slot = shares.reserveSlot();
        try {
            boolean needed = true;
            while (needed && library.fuse_session_exited(session) == 0) {
                MEMORY.setMemory(buffer, LibFuse29.FUSE_BUF_BYTES, (byte) 0);
                MEMORY.putLong(buffer + LibFuse29.FUSE_BUF_SIZE_OFFSET, requestBytes);
                MEMORY.putLong(buffer + LibFuse29.FUSE_BUF_MEMORY_OFFSET, request);
                MEMORY.putLong(channelCell, channel);
                int received = library.fuse_session_receive_buf(session, buffer, channelCell);
                if (received == EINTR) {
                    continue;
                }
                if (received <= 0) {
                    library.fuse_session_exit(session);
                    break;
                }
                needed = serveOne(slot, request, buffer, channelCell);
            }
        } finally {
            MEMORY.freeMemory(buffer);
            MEMORY.freeMemory(request);
            shares.releaseSlot(slot);
            endWorker();
        }
    }

    /** Serves the received request; returns whether this thread is still needed. */
    private boolean serveOne(int slot, long request, long buffer, long channelCell) {
        if (idle.decrementAndGet() == 0) {
            startWorker();
        }
        if (dataRequests.mayWait(request) && !shares.begin(slot, dataRequests.caller(request))) {
            dataRequests.refuse(request);
        } else if (!dataRequests.serve(request)) {
            library.fuse_session_process_buf(session, buffer, MEMORY.getLong(channelCell));
        }
        shares.end(slot);
        if (idle.incrementAndGet() > IDLE_MAX) {
            idle.decrementAndGet();
            return false;
        }
        return true;
    }
}
