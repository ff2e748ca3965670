package io.ppmr.source.rehearsal;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.AdvertiseFrame;
import io.ppmr.protocol.FrameType;
import io.ppmr.protocol.ReleaseFrame;
import io.ppmr.protocol.SlotFrame;
import io.ppmr.protocol.WantFrame;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import io.ppmr.transport.tcp.TcpChunkPuller;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A target inside the source's own process, for the warm-up: grants whatever is asked for, really pulls every chunk,
 * and throws it away. Runs on a thread of its own until it is closed.
 */
final class RehearsalTarget implements PullListener, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RehearsalTarget.class);
    private static final int CHUNKS = 16;
    private static final int FRAME_BYTES = 64;
    private static final long JOIN_MS = 2_000;
    private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(30);

    private record Wanted(int file, long window) {}

    private final ControlLink link;
    private final BufferPool pool;
    private final TcpChunkPuller puller;
    private final ArrayDeque<Wanted> wanted = new ArrayDeque<>();
    private final ConcurrentLinkedQueue<Integer> pulled = new ConcurrentLinkedQueue<>();
    private final long[] orders = new long[CHUNKS];
    private final int[] sourceChunks = new int[CHUNKS];
    private final WantFrame want = new WantFrame();
    private final AdvertiseFrame advertise = new AdvertiseFrame();
    private final SlotFrame slot = new SlotFrame();
    private final RemoteBlock block = new RemoteBlock();
    private final Thread thread;
    private long releasedSoFar;
    private volatile long released;
    private volatile boolean closed;

    RehearsalTarget(SocketChannel control, List<SocketChannel> data, int chunkBytes) throws IOException {
        link = new ControlLink(control, ControlLink.OF_FIRST_FRAME, SILENCE_NS);
        pool = new BufferPool(new PoolGeometry(chunkBytes, CHUNKS));
        puller = new TcpChunkPuller(pool, data, this);
        thread = new Thread(this::run, "ppmr-rehearsal");
        thread.setDaemon(true);
        thread.start();
    }

    /** How many chunks have come and gone. */
    long released() {
        return released;
    }

    /** The rehearsal is over: what fails from now on is meant to. */
    void finish() {
        closed = true;
    }

    @Override
    public void close() {
        closed = true;
        link.wake();
        try {
            thread.join(JOIN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        puller.close();
        link.close();
    }

    @Override
    public void pulled(long pullId) {
        pulled.add((int) pullId);
        link.wake();
    }

    @Override
    public void pullFailed(long pullId, String reason) {
        if (!closed) {
            LOG.warn("the warm-up's transfer fails: {}", reason);
        }
    }

    private void run() {
        try {
            while (!closed) {
                int work = link.doWork(this::onFrame) + release() + grant() + link.transmit();
                if (work == 0) {
                    link.prepareToSleep();
                    if (pulled.isEmpty()) {
                        link.idle(5);
                    }
                }
            }
        } catch (IOException e) {
            if (!closed) {
                LOG.warn("the warm-up ends early: {}", e.getMessage());
            }
        }
    }

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) {
        switch (type) {
            case WANT -> {
                want.wrap(buffer, offset);
                boolean blocked = (want.flags() & WantFrame.BLOCKED) != 0;
                for (int i = 0; i < want.count(); i++) {
                    Wanted next = new Wanted(want.file(), want.window() + i);
                    if (blocked) {
                        wanted.remove(next);
                        wanted.addFirst(next);
                    } else {
                        wanted.addLast(next);
                    }
                }
            }
            case RETURN -> pool.giveUp(slot.wrap(buffer, offset).slot());
            case ADVERTISE -> {
                advertise.wrap(buffer, offset);
                int chunk = advertise.slot();
                orders[chunk] = advertise.order();
                sourceChunks[chunk] = advertise.sourceChunk();
                block.set(advertise.address(), advertise.key(), advertise.lengthBytes());
                puller.pull(chunk, block, chunk, pool.geometry().offsetInWindow(advertise.offset()));
            }
            default -> LOG.trace("{} of {} bytes is not needed to rehearse", type, lengthBytes);
        }
    }

    private int release() {
        int count = 0;
        for (Integer chunk = pulled.poll(); chunk != null; chunk = pulled.poll()) {
            pool.giveUp(chunk);
            link.advance(ReleaseFrame.encode(
                    link.outBuffer(), link.outOffset(), link.attempt(), 0, orders[chunk], sourceChunks[chunk]));
            count++;
        }
        releasedSoFar += count;
        released = releasedSoFar;
        return count;
    }

    private int grant() {
        int count = 0;
        while (!wanted.isEmpty() && link.hasRoom(FRAME_BYTES)) {
            int chunk = pool.tryClaim();
            if (chunk == BufferPool.NONE) {
                break;
            }
            Wanted first = wanted.poll();
            link.advance(SlotFrame.encode(
                    link.outBuffer(),
                    link.outOffset(),
                    FrameType.GRANT,
                    link.attempt(),
                    first.file,
                    first.window,
                    chunk));
            count++;
        }
        return count;
    }
}
