package io.ppmr.bench.node;

import io.ppmr.bench.node.SourceNode.SourceConnections;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.linux.LogContext;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.NodeKind;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.transport.ChunkSender;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.LinkIdle;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.SourcePath;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.zip.CRC32C;
import org.agrona.DirectBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A source without writers. Threads offer full chunks out of its pool, each thread one at a time, as the paper's "I/O
 * processes" of Fig. 8a do. {@code begin THREADS DATA-CONNECTIONS WHERE} returns no directory, and the arguments of the
 * target's join. {@code offer BYTES} has each thread offer that number of bytes. It returns when the first thread began
 * and when the last chunk was released, by the monotonic clock.
 *
 * <p>A thread has one chunk under way. It requests the slots of the following chunks as a writer in order does, which
 * is several at once, before it needs them.
 */
final class OfferNode implements NodeMain.BenchNode {
    private static final Logger LOG = LoggerFactory.getLogger(OfferNode.class);
    private static final long LIMIT_S = 60;
    private static final int NAMELESS_MODE = 0600;
    /** The number of windows that a writer in order requests ahead. */
    private static final int LOOKAHEAD = 8;

    /** The previous window has the file's first bytes, which travel in another way. */
    private static final long FIRST_WINDOW = 1;

    private final BufferPool pool;
    private final FairClaims claims;
    private final List<Offerer> offerers = new ArrayList<>();
    private final Object orderLock = new Object();
    private final Offerer[] byChunk;
    private ControlLink link;
    private SourcePath path;
    private Thread agent;
    private volatile boolean over;
    private CountDownLatch runEnds = new CountDownLatch(1);
    private long nextOrder;

    OfferNode(PoolGeometry geometry) {
        pool = new BufferPool(geometry);
        claims = new FairClaims(pool);
        byChunk = new Offerer[geometry.chunkCount()];
    }

    @Override
    public String begin(List<String> words) throws Exception {
        SourceConnections end = SourceConnections.join(
                words.subList(2, words.size()),
                Integer.parseInt(words.get(1)),
                pool,
                reason -> LOG.error("the run fails: {}", reason));
        over = false;
        runEnds = new CountDownLatch(1);
        nextOrder = 0;
        link = new ControlLink(end.control(), ProtocolVersion.NEWEST, 1, TargetNode.SILENCE_NS);
        path = end.path();
        if (path instanceof ChunkSender sender) {
            sender.begin(1, this::released);
        }
        offerers.clear();
        agent = LogContext.thread(this::runAgent, "bench-offer");
        agent.start();
        for (int i = 0; i < Integer.parseInt(words.get(0)); i++) {
            offerers.add(new Offerer(i + 1));
            String name = ArrivingImages.rankPath(i) + "/image";
            link.send(new DataMessage.Created(i + 1, NodeKind.FILE, name, NAMELESS_MODE, 0, 0, ""));
            // Bytes of a file that can no longer be opened are dropped on arrival.
            link.send(new DataMessage.Removed(name));
        }
        return "- " + end.proof();
    }

    @Override
    public String command(List<String> words) throws Exception {
        if (SourceConnections.mayWrite(words, path)) {
            return "";
        }
        long chunks = Long.parseLong(words.get(1)) / pool.geometry().chunkBytes();
        List<Thread> threads = new ArrayList<>();
        CountDownLatch offered = new CountDownLatch(offerers.size());
        CountDownLatch ends = runEnds;
        for (Offerer offerer : offerers) {
            threads.add(new Thread(() -> offerer.run(chunks, offered, ends), "bench-offerer-" + offerer.file));
        }
        long startNs = System.nanoTime();
        threads.forEach(Thread::start);
        boolean isDone = offered.await(LIMIT_S, TimeUnit.SECONDS);
        long endNs = System.nanoTime();
        if (!isDone || over || offerers.stream().anyMatch(offerer -> offerer.left > 0)) {
            throw new IOException("not every chunk came back");
        }
        return startNs + " " + endNs;
    }

    @Override
    public void end() throws Exception {
        over = true;
        runEnds.countDown();
        link.wake();
        agent.join(TimeUnit.SECONDS.toMillis(2));
        path.close();
        link.close();
    }

    @Override
    public void close() {
        // The pool ends with the process.
    }

    private void runAgent() {
        LinkIdle idle = new LinkIdle(link, () -> false, () -> 10);
        try {
            while (!over) {
                idle.idle(link.doWork(this::onFrame) + link.transmit());
            }
        } catch (IOException | RuntimeException e) {
            if (!over) {
                over = true;
                LOG.error("the run fails", e);
                offerers.forEach(Offerer::end);
            }
        }
    }

    private final CreditFrame slot = new CreditFrame();
    private final ReleaseFrame release = new ReleaseFrame();

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) {
        if (type == FrameType.CREDIT) {
            slot.wrap(buffer, offset);
            Offerer offerer = offerers.get(slot.file() - 1);
            offerer.slots.set((int) (slot.window() % LOOKAHEAD), slot.slot());
            offerer.granted.release();
        } else if (type == FrameType.RELEASE) {
            released(release.wrap(buffer, offset).sourceChunk());
        } else {
            LOG.trace("{} of {} bytes is not needed here", type, lengthBytes);
        }
    }

    private void released(int chunk) {
        Offerer offerer = byChunk[chunk];
        claims.release(chunk);
        offerer.released.release();
    }

    /** A thread that offers, with its file, and the one slot that it may hold. */
    private final class Offerer {
        private final int file;
        private final Semaphore granted = new Semaphore(0);
        private final Semaphore released = new Semaphore(1);
        private final CRC32C crc = new CRC32C();
        private final AtomicIntegerArray slots = new AtomicIntegerArray(LOOKAHEAD);
        private volatile long left;
        private long wantedTo;

        private Offerer(int file) {
            this.file = file;
        }

        /**
         * Offers chunks, and lives until the run ends, because the kernel drops the sleep counts of an ended thread.
         */
        private void run(long chunks, CountDownLatch offered, CountDownLatch ends) {
            try {
                offerAll(chunks);
            } finally {
                offered.countDown();
            }
            try {
                if (!ends.await(LIMIT_S, TimeUnit.SECONDS)) {
                    LOG.error("file {}: the run has not ended within {} s", file, LIMIT_S);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        private void offerAll(long chunks) {
            left = chunks;
            wantedTo = FIRST_WINDOW - 1;
            try {
                for (long window = FIRST_WINDOW; left > 0; window++) {
                    want(window, window + left - 1);
                    granted.acquire();
                    released.acquire();
                    if (over) {
                        return;
                    }
                    offer(window, slots.get((int) (window % LOOKAHEAD)));
                    left = FIRST_WINDOW + chunks - 1 - window;
                }
                released.acquire();
                released.release();
                left = over ? 1 : 0;
            } catch (IOException e) {
                over = true;
                LOG.error("the run fails", e);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        /** The run is over: wakes the waiting threads. */
        private void end() {
            granted.release();
            released.release();
        }

        private void want(long window, long last) throws IOException {
            long upTo = Math.min(last, window + LOOKAHEAD - 1);
            if (upTo > wantedTo && wantedTo - window < LOOKAHEAD / 2) {
                int index = link.claim(CreditRequestFrame.LENGTH_BYTES);
                CreditRequestFrame.encode(link.claimed(), index, 1, file, wantedTo + 1, (int) (upTo - wantedTo), 0);
                link.commit(index);
                wantedTo = upTo;
            }
        }

        private void offer(long window, int slotInHand) throws IOException {
            int chunk = claims.claim(System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S));
            int chunkBytes = pool.geometry().chunkBytes();
            byChunk[chunk] = this;
            ByteBuffer bytes = pool.buffer(chunk);
            bytes.limit(chunkBytes).position(0);
            crc.reset();
            crc.update(bytes);
            pool.markReady(chunk);
            int crc32c = (int) crc.getValue();
            if (path instanceof ChunkSender sender) {
                sender.send(chunk, 0, chunkBytes, file, window * chunkBytes, slotInHand, crc32c, true);
            } else if (path instanceof RegionExporter exporter) {
                advertise(exporter, chunk, window * chunkBytes, slotInHand, crc32c);
            }
        }

        private void advertise(RegionExporter exporter, int chunk, long offset, int slotInHand, int crc32c)
                throws IOException {
            synchronized (orderLock) {
                int index = link.claim(AdvertiseFrame.LENGTH_BYTES);
                AdvertiseFrame.encode(
                        link.claimed(),
                        index,
                        1,
                        file,
                        offset,
                        nextOrder++,
                        exporter.address(chunk),
                        exporter.key(),
                        pool.geometry().chunkBytes(),
                        crc32c,
                        chunk,
                        slotInHand);
                link.commit(index);
            }
        }
    }
}
