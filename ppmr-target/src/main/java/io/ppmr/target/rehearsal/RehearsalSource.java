package io.ppmr.target.rehearsal;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Warmup;
import io.ppmr.protocol.AdvertiseFrame;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.FrameType;
import io.ppmr.protocol.HeadFrame;
import io.ppmr.protocol.NodeKind;
import io.ppmr.protocol.ReleaseFrame;
import io.ppmr.protocol.SlotFrame;
import io.ppmr.protocol.ValueFrame;
import io.ppmr.protocol.WantFrame;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.tcp.TcpRegionExporter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;
import org.agrona.DirectBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A source inside the target's own process, for the warm-up: images full of zeros, really exported and really asked
 * slots for. In each round one file a client; the next round's files come when this one's have gone out. Runs on a
 * thread of its own until it is closed.
 */
final class RehearsalSource implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RehearsalSource.class);
    static final int ATTEMPT = 1;

    private static final int CHUNKS = 16;
    private static final int AHEAD = 4;
    private static final int FRAME_BYTES = 64;
    private static final long JOIN_MS = 2_000;
    private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(30);

    private static final class Image {
        private final int id;
        private final int windows;
        private int asked;
        private int granted;
        private int arrived;

        private Image(int id, int windows) {
            this.id = id;
            this.windows = windows;
        }
    }

    private record Grant(int file, long window, int slot) {}

    private final ControlLink link;
    private final TcpRegionExporter exporter;
    private final BufferPool pool;
    private final int clients;
    private final int smallWindows;
    private final int windows;
    private final int rounds;
    private final int[] crcs = new int[2];
    private final List<Image> images = new ArrayList<>();
    private final ArrayDeque<Grant> grants = new ArrayDeque<>();
    private final int[] chunkFiles = new int[CHUNKS];
    private final SlotFrame slot = new SlotFrame();
    private final ReleaseFrame release = new ReleaseFrame();
    private final Thread thread;
    private volatile int round;
    private long order;
    private volatile boolean closed;

    /**
     * @param clients files in each round
     * @param smallFileBytes size of each file of the first round
     * @param fileBytes size of each file of the others, a multiple of the chunk
     * @param rounds rounds of them
     */
    RehearsalSource(
            SocketChannel control,
            List<SocketChannel> data,
            int chunkBytes,
            int clients,
            long smallFileBytes,
            long fileBytes,
            int rounds)
            throws IOException {
        this.clients = clients;
        this.smallWindows = (int) ((smallFileBytes + chunkBytes - 1) / chunkBytes);
        this.windows = (int) (fileBytes / chunkBytes);
        this.rounds = rounds;
        link = new ControlLink(control, ATTEMPT, SILENCE_NS);
        pool = new BufferPool(new PoolGeometry(chunkBytes, CHUNKS));
        exporter = new TcpRegionExporter(pool, data, reason -> LOG.debug("the warm-up's transport says {}", reason));
        crcs[0] = crcOfZeros(chunkBytes - HeadFrame.HEAD_BYTES);
        crcs[1] = crcOfZeros(chunkBytes);
        thread = new Thread(this::run, "ppmr-rehearsal");
        thread.setDaemon(true);
        thread.start();
    }

    /** Rounds that were begun. */
    int rounds() {
        return round;
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
        exporter.close();
        link.close();
    }

    private static int crcOfZeros(int lengthBytes) {
        CRC32C crc = new CRC32C();
        crc.update(ByteBuffer.allocate(lengthBytes));
        return (int) crc.getValue();
    }

    private void run() {
        try {
            while (!closed) {
                int work = link.doWork(this::onFrame) + advertise() + ask() + nextRound() + link.transmit();
                if (work == 0) {
                    link.idle(5);
                }
            }
        } catch (IOException e) {
            if (!closed) {
                LOG.warn("the warm-up ends early: {}", e.getMessage());
            }
        }
    }

    private int nextRound() {
        boolean allOut = images.stream().allMatch(image -> image.arrived == image.windows);
        if (!allOut || round == rounds) {
            return 0;
        }
        for (int client = 0; client < clients; client++) {
            Image image = new Image(images.size() + 1, round == 0 ? smallWindows : windows);
            images.add(image);
            String path = ArrivingImages.rankPath(0) + "/" + Warmup.readName(round, client);
            link.sendFromAgent(new ControlMessage.Created(image.id, NodeKind.FILE, path, 0400, 0, 0, ""));
        }
        round = images.size() / clients;
        return clients;
    }

    private int ask() {
        int count = 0;
        for (Image image : images) {
            while (link.hasRoom(FRAME_BYTES + HeadFrame.HEAD_BYTES)
                    && image.asked < image.windows
                    && image.asked == image.granted
                    && image.asked - image.arrived < AHEAD) {
                if (image.asked == 0) {
                    link.advance(HeadFrame.encode(
                            link.outBuffer(), link.outOffset(), ATTEMPT, image.id, 0, HeadFrame.HEAD_BYTES));
                }
                link.advance(WantFrame.encode(
                        link.outBuffer(), link.outOffset(), ATTEMPT, image.id, image.asked++, 1, WantFrame.BLOCKED));
                count++;
            }
        }
        return count;
    }

    private int advertise() {
        int count = 0;
        while (!grants.isEmpty() && link.hasRoom(FRAME_BYTES)) {
            int chunk = pool.tryClaim();
            if (chunk == BufferPool.NONE) {
                break;
            }
            Grant grant = grants.poll();
            pool.ready(chunk);
            chunkFiles[chunk] = grant.file;
            int start = grant.window == 0 ? HeadFrame.HEAD_BYTES : 0;
            int chunkBytes = pool.geometry().chunkBytes();
            link.advance(AdvertiseFrame.encode(
                    link.outBuffer(),
                    link.outOffset(),
                    ATTEMPT,
                    grant.file,
                    grant.window * chunkBytes + start,
                    order++,
                    exporter.address(chunk) + start,
                    exporter.key(),
                    chunkBytes - start,
                    crcs[start == 0 ? 1 : 0],
                    chunk,
                    grant.slot));
            count++;
        }
        return count;
    }

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) {
        switch (type) {
            case GRANT -> {
                slot.wrap(buffer, offset);
                images.get(slot.file() - 1).granted++;
                grants.add(new Grant(slot.file(), slot.window(), slot.slot()));
            }
            case RELEASE -> {
                int chunk = release.wrap(buffer, offset).sourceChunk();
                pool.release(chunk);
                Image image = images.get(chunkFiles[chunk] - 1);
                image.arrived++;
                if (image.arrived == image.windows) {
                    link.advance(ValueFrame.encode(
                            link.outBuffer(),
                            link.outOffset(),
                            FrameType.END_OF_FILE,
                            ATTEMPT,
                            image.id,
                            (long) image.windows * pool.geometry().chunkBytes()));
                }
            }
            default -> LOG.trace("{} of {} bytes is not needed to rehearse", type, lengthBytes);
        }
    }
}
