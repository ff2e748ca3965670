package io.ppmr.bench.node;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.FrameType;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.image.Outlet;
import java.io.IOException;
import java.util.List;
import java.util.stream.IntStream;

/** A source whose full chunks are thrown away at once: {@code begin WRITERS crc|plain} gives the directory. */
final class AggregationNode implements BenchNode {
    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view = new OutgoingImageView();
    private final FuseMount mount;
    private OutgoingFiles files;
    private String directory;
    private int runs;

    AggregationNode(NodeSetting setting) throws Exception {
        setting.warmUp();
        pool = new BufferPool(setting.geometry());
        claims = new FairClaims(pool);
        mount = FuseMount.mount(view, setting.mountPoint(), MountOptions.named("ppmr-bench"));
    }

    @Override
    public String begin(List<String> words) throws Exception {
        int writers = Integer.parseInt(words.get(0));
        boolean crc = words.get(1).equals("crc");
        directory = "run." + ++runs;
        files = new OutgoingFiles(
                directory,
                view.tree(),
                pool,
                claims,
                new Discard(claims, crc),
                IntStream.range(0, writers).boxed().toList(),
                0,
                0);
        view.add(directory, files);
        return directory;
    }

    @Override
    public void end() throws Exception {
        view.remove(directory);
        files.discard();
    }

    @Override
    public void close() throws IOException {
        mount.close();
    }

    /** Grants every slot at once, and gives every full chunk back. */
    record Discard(FairClaims claims, boolean wantsCrc) implements Outlet {
        private static final int ANY_SLOT = 0;

        @Override
        public void want(OutgoingFile file, long window, int count, int flags) {
            for (int i = 0; i < count; i++) {
                file.granted(window + i, ANY_SLOT);
            }
        }

        @Override
        public void advertise(
                OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int crc, int slot) {
            claims.release(chunk);
        }

        @Override
        public void giveBack(OutgoingFile file, long window, int slot) {
            // Slots are for the asking here.
        }

        @Override
        public void head(OutgoingFile file, int position, long address, int lengthBytes) {
            // Thrown away, as all else.
        }

        @Override
        public void value(FrameType type, int file, long value) {
            // Nobody listens.
        }

        @Override
        public void message(ControlMessage message) {
            // Nobody listens.
        }

        @Override
        public void sync(OutgoingFile file) {
            // All is where it was to go.
        }

        @Override
        public void starving() {
            // Chunks come back by themselves.
        }

        @Override
        public void waitedForChunk(long tookNs) {
            // The benchmark takes its own times.
        }

        @Override
        public void waitedForSlot(OutgoingFile file, long tookNs) {
            // The benchmark takes its own times.
        }

        @Override
        public void filled(long tookNs) {
            // The benchmark takes its own times.
        }
    }
}
