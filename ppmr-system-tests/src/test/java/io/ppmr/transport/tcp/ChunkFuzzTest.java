package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.Arrivals;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Sends arbitrary bytes on a data connection, to a target or to a source. The first byte of an input selects the side.
 */
class ChunkFuzzTest {
    private static final int CHUNK_BYTES = 16 * 1024;
    private static final int CHUNKS = 4;
    private static final int ATTEMPT = 1;
    private static final long END_S = 10;
    private static final long PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(20);

    private final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private UnixDomainSocketAddress address;
    private ServerSocketChannel server;

    @TempDir
    private Path directory;

    /** Sockets without ports, because this number of connections would use up all ports. */
    @BeforeEach
    void listen() throws IOException {
        address = UnixDomainSocketAddress.of(directory.resolve("fuzz"));
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(address);
    }

    @AfterEach
    void close() throws IOException {
        server.close();
    }

    private static byte[] chunks() {
        int length = 1 + 2 * ChunkFrame.LENGTH_BYTES + 12;
        UnsafeBuffer bytes = new UnsafeBuffer(new byte[length]);
        int second = 1 + ChunkFrame.LENGTH_BYTES + 8;
        ChunkFrame.encode(bytes, 1, ATTEMPT, 3, CHUNK_BYTES, 8, 77, 2, 1, 0);
        ChunkFrame.encode(bytes, second, ATTEMPT, 3, 2 * CHUNK_BYTES - 4, 4, 77, 3, 2, 1);
        ChunkFrame.number(bytes, second, 1);
        return bytes.byteArray();
    }

    private static byte[] releases() {
        UnsafeBuffer bytes = new UnsafeBuffer(new byte[1 + 2 * ReleaseFrame.LENGTH_BYTES]);
        bytes.putByte(0, (byte) 1);
        ReleaseFrame.encode(bytes, 1, ATTEMPT, 3, 0, 2);
        ReleaseFrame.encode(bytes, 1 + ReleaseFrame.LENGTH_BYTES, ATTEMPT, 3, 0, 3);
        return bytes.byteArray();
    }

    private static Fuzz fuzz() {
        return new Fuzz(FuzzPlan.CHUNKS, new Mutator(List.of(chunks(), releases()), 1024), List.of(IOException.class));
    }

    /** Accepts bytes within its pool, as a ledger would that has granted all of it. */
    private record Taker(BufferPool pool, CompletableFuture<String> end) implements Arrivals {
        @Override
        public ByteBuffer onChunkStart(ChunkFrame chunk) throws ProtocolException {
            int at = pool.geometry().offsetInWindow(chunk.offset());
            if (chunk.slot() < 0
                    || chunk.slot() >= CHUNKS
                    || chunk.offset() < 0
                    || chunk.lengthBytes() <= 0
                    || chunk.lengthBytes() > CHUNK_BYTES - at) {
                throw new ProtocolException(chunk + " is for no slot that was granted");
            }
            return pool.buffer(chunk.slot()).limit(at + chunk.lengthBytes()).position(at);
        }

        @Override
        public boolean onChunkEnd(ChunkFrame chunk) {
            return true;
        }

        @Override
        public void onProtocolError(String reason) {
            end.complete(reason);
        }

        @Override
        public void onPullCompleted(long pullId) {
            end.complete("java.lang.AssertionError: a pull");
        }

        @Override
        public void onPullFailed(long pullId, String reason) {
            end.complete("java.lang.AssertionError: a pull");
        }
    }

    private void hear(byte[] input) throws Exception {
        byte[] said = input.length == 0 ? input : Arrays.copyOfRange(input, 1, input.length);
        boolean atTheTarget = input.length == 0 || (input[0] & 1) == 0;
        CompletableFuture<String> end = new CompletableFuture<>();
        try (SocketChannel far = SocketChannel.open(address);
                SocketChannel near = server.accept()) {
            if (atTheTarget) {
                TcpChunkReceiver receiver = new TcpChunkReceiver(List.of(near), new Taker(pool, end));
                say(far, said, end);
                receiver.close();
            } else {
                try (TcpChunkSender sender = new TcpChunkSender(pool, List.of(near), end::complete)) {
                    sender.begin(ATTEMPT, chunk -> {
                        if (chunk < 0 || chunk >= CHUNKS) {
                            throw new ProtocolException("chunk " + chunk + " is not on its way");
                        }
                    });
                    for (int chunk = 0; chunk < CHUNKS; chunk++) {
                        sender.send(chunk, 0, 1, 3, (long) chunk * CHUNK_BYTES, chunk, 0, false);
                    }
                    say(far, said, end);
                }
            }
        }
        String reason = end.getNow("");
        if (reason.contains("Exception") && !reason.contains("java.io.") && !reason.contains("ProtocolException")) {
            throw new AssertionError(reason);
        }
        if (!reason.isEmpty() && !reason.endsWith("closed by the target")) {
            throw new IOException(reason);
        }
    }

    /** Sends the bytes, and waits until the other end closed, or reports why it accepts no more. */
    private static void say(SocketChannel far, byte[] said, CompletableFuture<String> end) throws Exception {
        far.configureBlocking(false);
        ByteBuffer bytes = ByteBuffer.wrap(said);
        ByteBuffer answers = ByteBuffer.allocate(1024);
        boolean closed = false;
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(END_S);
        while (!closed && !end.isDone()) {
            if (bytes.hasRemaining()) {
                far.write(bytes);
                if (!bytes.hasRemaining()) {
                    far.shutdownOutput();
                }
            } else if (said.length == 0) {
                far.shutdownOutput();
            }
            closed = far.read(answers.clear()) < 0;
            if (System.nanoTime() - deadlineNs > 0) {
                throw new AssertionError("the connection has no end");
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverComesOnADataConnection() throws Exception {
        fuzz().inTheGate(this::hear);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverComesOnADataConnection() throws Exception {
        fuzz().forLong(this::hear);
    }
}
