package io.ppmr.bench.pieces;

import io.ppmr.protocol.AdvertiseFrame;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.ControlMessageCodec;
import io.ppmr.protocol.NodeKind;
import io.ppmr.protocol.ProtocolException;
import io.ppmr.protocol.ReleaseFrame;
import java.nio.ByteBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/** The frames of a chunk, written and read in place, and a message of variable length, which is rare. */
@State(Scope.Thread)
public class FramePieces {
    private final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(4096));
    private final AdvertiseFrame advertise = new AdvertiseFrame();
    private final ReleaseFrame release = new ReleaseFrame();
    private final ControlMessage created =
            new ControlMessage.Created(7, NodeKind.FILE, "/rank-3/context.3", 0600, 1000, 1000, "");
    private long order;

    @Benchmark
    public long advertise() {
        order++;
        AdvertiseFrame.encode(buffer, 0, 1, 7, order << 17, order, order << 17, 42, 1 << 17, (int) order, 5, 6);
        advertise.wrap(buffer, 0);
        return advertise.file() + advertise.offset() + advertise.order() + advertise.address() + advertise.crc32c();
    }

    @Benchmark
    public long release() {
        ReleaseFrame.encode(buffer, 0, 1, 7, ++order, 5);
        release.wrap(buffer, 0);
        return release.file() + release.order() + release.sourceChunk();
    }

    @Benchmark
    public ControlMessage created() throws ProtocolException {
        return ControlMessageCodec.decode(ControlMessageCodec.encode(1, created), 0);
    }
}
