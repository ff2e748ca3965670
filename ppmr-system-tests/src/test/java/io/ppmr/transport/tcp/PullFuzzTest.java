package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.transport.PlayedChannel;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a target sends on a data connection to a source, and a source to a target, behind one byte that says which. */
class PullFuzzTest {
    private static final int CHUNK_BYTES = 16 * 1024;
    private static final PoolGeometry GEOMETRY = new PoolGeometry(CHUNK_BYTES, 4);
    private static final long END_S = 10;
    private static final int KEY_OFFSET = 2 * Long.BYTES;
    private static final byte[] NOTHING = {};

    private final BufferPool pool = new BufferPool(GEOMETRY);

    private static byte[] requests() {
        ByteBuffer bytes = ByteBuffer.allocate(1 + 2 * PullFrames.REQUEST_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.put((byte) 0);
        PullFrames.putRequest(bytes, 1, CHUNK_BYTES, 0, CHUNK_BYTES);
        PullFrames.putRequest(bytes, 2, 0, 0, 1);
        return bytes.array();
    }

    private static byte[] answers() {
        ByteBuffer bytes =
                ByteBuffer.allocate(1 + 2 * PullFrames.ANSWER_BYTES + 12).order(ByteOrder.LITTLE_ENDIAN);
        bytes.put((byte) 1);
        PullFrames.putAnswer(bytes, 1, PullFrames.OK, 8);
        bytes.putLong(77);
        PullFrames.putAnswer(bytes, 2, PullFrames.OK, 4);
        return bytes.array();
    }

    private static Fuzz fuzz() {
        return new Fuzz(FuzzPlan.PULLS, new Mutator(List.of(requests(), answers()), 1024), List.of(IOException.class));
    }

    private void pull(byte[] input) throws Exception {
        if (input.length == 0 || (input[0] & 1) == 0) {
            ask(input);
        } else {
            hear(input);
        }
    }

    /** The source's side. In the place of a key an input has what is wrong in it, as only the session knows the key. */
    private void ask(byte[] input) throws Exception {
        CompletableFuture<Long> key = new CompletableFuture<>();
        CompletableFuture<String> end = new CompletableFuture<>();
        PlayedChannel channel = new PlayedChannel(() -> withKey(input, key.join()), told -> NOTHING);
        try (TcpRegionExporter exporter = new TcpRegionExporter(pool, List.of(channel), end::complete)) {
            for (int chunk = 0; chunk < pool.geometry().chunkCount(); chunk++) {
                exporter.permit(chunk, 0, CHUNK_BYTES);
            }
            key.complete(exporter.key());
            String reason = end.get(END_S, TimeUnit.SECONDS);
            long requests = input.length / PullFrames.REQUEST_BYTES + 1L;
            if (channel.toldBytes() > requests * (CHUNK_BYTES + PullFrames.ANSWER_BYTES)) {
                throw new AssertionError(channel.toldBytes() + " bytes are sent");
            }
            requireNamed(reason);
            if (!reason.contains("closed by the target")) {
                throw new IOException(reason);
            }
        }
    }

    private static byte[] withKey(byte[] input, long key) {
        byte[] bytes = input.length == 0 ? input : Arrays.copyOfRange(input, 1, input.length);
        ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (int at = KEY_OFFSET; at + Long.BYTES <= bytes.length; at += PullFrames.REQUEST_BYTES) {
            buffer.putLong(at, buffer.getLong(at) ^ key);
        }
        return bytes;
    }

    private static void requireNamed(String reason) {
        if (reason.contains("Exception") && !reason.contains("java.io.")) {
            throw new AssertionError(reason);
        }
    }

    /** The target's side, which has asked for two blocks. */
    private void hear(byte[] input) throws Exception {
        CompletableFuture<Boolean> asked = new CompletableFuture<>();
        BlockingQueue<String> ends = new LinkedBlockingQueue<>();
        PullListener listener = new PullListener() {
            @Override
            public void pulled(long pullId) {
                ends.add("");
            }

            @Override
            public void pullFailed(long pullId, String reason) {
                ends.add(reason);
            }
        };
        PlayedChannel channel = new PlayedChannel(
                () -> asked.join() ? Arrays.copyOfRange(input, 1, input.length) : NOTHING, told -> NOTHING);
        try (TcpChunkPuller puller = new TcpChunkPuller(pool, List.of(channel), listener)) {
            RemoteBlock block = new RemoteBlock();
            puller.pull(1, block.set(0, 5, 8), 0, 0, true);
            puller.pull(2, block.set(8, 5, 4), 1, CHUNK_BYTES - 4, false);
            asked.complete(true);
            String refusal = "";
            for (int i = 0; i < 2; i++) {
                String end = ends.poll(END_S, TimeUnit.SECONDS);
                if (end == null) {
                    throw new AssertionError("a pull has no end");
                }
                requireNamed(end);
                refusal = end.isEmpty() ? refusal : end;
            }
            if (!refusal.isEmpty()) {
                throw new IOException(refusal);
            }
        }
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverComesOnADataConnection() throws Exception {
        fuzz().inTheGate(this::pull);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverComesOnADataConnection() throws Exception {
        fuzz().forLong(this::pull);
    }
}
