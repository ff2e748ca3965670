package io.ppmr.fuse;

import com.kenai.jffi.MemoryIO;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads that take requests from one mount, serve and answer them. There is always one that waits for the next
 * request, however many are blocked in the view, up to a limit.
 *
 * <p>This is libfuse's {@code fuse_loop_mt} on Java threads. Under libfuse's own threads jffi attaches the thread to
 * the JVM and detaches it again at each single call, which makes and registers a {@code Thread} each time. Reads and
 * writes are served by {@link DataRequests} and never come to libfuse; everything else is libfuse's.
 */
final class FuseWorkers {
    private static final Logger LOG = LoggerFactory.getLogger(FuseWorkers.class);
    private static final MemoryIO MEMORY = MemoryIO.getInstance();
    private static final int IDLE_MAX = 10;
    /** One for each call that may be blocked in the view at a time; far above any sane number of ranks. */
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
    private final CountDownLatch allGone = new CountDownLatch(1);

    FuseWorkers(
            LibFuse29 library, DataRequests dataRequests, long session, long channel, long requestBytes, String name) {
        this.library = library;
        this.dataRequests = dataRequests;
        this.session = session;
        this.channel = channel;
        this.requestBytes = requestBytes;
        this.name = name;
    }

    /** Serves until the mount is gone and every call has come back from the view. */
    void serve() throws InterruptedException {
        startOne();
        // No deadline: this is the service's life. The kernel ends it, when the mount goes or is aborted.
        allGone.await();
    }

    private void startOne() {
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
        Thread thread = new Thread(this::work, name + " worker " + started.incrementAndGet());
        thread.setDaemon(true);
        try {
            thread.start();
        } catch (OutOfMemoryError e) {
            // The caller has a request in hand that must still be answered; a worker that comes back tries again.
            LOG.error(
                    "{}: no thread can be started beside the {} that run; raise TasksMax or 'ulimit -u'",
                    name,
                    now - 1,
                    e);
            idle.decrementAndGet();
            leave();
        }
    }

    private void leave() {
        if (running.decrementAndGet() == 0) {
            allGone.countDown();
        }
    }

    private void work() {
        long request = MEMORY.allocateMemory(requestBytes, false);
        long buffer = MEMORY.allocateMemory(LibFuse29.FUSE_BUF_BYTES + Long.BYTES, true);
        long channelCell = buffer + LibFuse29.FUSE_BUF_BYTES;
        int place = shares.takePlace();
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
                needed = serveOne(place, request, buffer, channelCell);
            }
        } finally {
            MEMORY.freeMemory(buffer);
            MEMORY.freeMemory(request);
            shares.givePlaceBack(place);
            leave();
        }
    }

    /** Serves the request in hand; answers whether this thread is still wanted. */
    private boolean serveOne(int place, long request, long buffer, long channelCell) {
        if (idle.decrementAndGet() == 0) {
            startOne();
        }
        if (dataRequests.mayWait(request) && !shares.begin(place, dataRequests.caller(request))) {
            dataRequests.refuse(request);
        } else if (!dataRequests.serve(request)) {
            library.fuse_session_process_buf(session, buffer, MEMORY.getLong(channelCell));
        }
        shares.end(place);
        if (idle.incrementAndGet() > IDLE_MAX) {
            idle.decrementAndGet();
            return false;
        }
        return true;
    }
}
