package io.ppmr.target.image;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.MappedBytesStore;
import net.openhft.chronicle.bytes.MappedFile;
import net.openhft.chronicle.core.io.ReferenceOwner;
import org.agrona.BufferUtil;

/**
 * The file of a {@link StagingArea}: memory-mapped, of mode 0600 and without a name, so that nothing of an image
 * outlives the service. Each part is written once before it is used: a full disk then is an error by name and not a
 * fault in somebody's copy. Owned by the session's agent; the memory may be read and written by any thread.
 */
final class StagingFile implements StagingArea.Backing {
    private static final int ZEROS_BYTES = 1024 * 1024;

    private final Path directory;
    private final long regionBytes;
    private final ReferenceOwner owner = ReferenceOwner.temporary("staging");
    private final List<MappedBytesStore> regions = new ArrayList<>();
    private MappedFile file;
    private ByteBuffer zeros;

    /**
     * @param directory where the file is made, when it is first needed
     * @param regionBytes how much is mapped at once; what is mapped and not yet filled takes no room
     */
    StagingFile(Path directory, long regionBytes) {
        this.directory = directory;
        this.regionBytes = regionBytes;
    }

    @Override
    public long extend(long start, int lengthBytes) throws IOException {
        if (file == null) {
            file = open();
            zeros = ByteBuffer.allocateDirect(ZEROS_BYTES);
        }
        int region = (int) (start / regionBytes);
        if (region == regions.size()) {
            regions.add(file.acquireByteStore(owner, start));
        }
        fill(file.raf().getChannel(), start, lengthBytes);
        return regions.get(region).addressForRead(start);
    }

    private MappedFile open() throws IOException {
        Path path = Files.createTempFile(
                directory,
                "ppmr-staging-",
                "",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        try {
            return MappedFile.of(new File(path.toString()), regionBytes, 0, false);
        } finally {
            Files.delete(path);
        }
    }

    /** Has the filesystem set the room aside. */
    private void fill(FileChannel channel, long start, long lengthBytes) throws IOException {
        for (long done = 0; done < lengthBytes; ) {
            zeros.position(0).limit((int) Math.min(zeros.capacity(), lengthBytes - done));
            done += channel.write(zeros, start + done);
        }
    }

    @Override
    public void close() {
        regions.forEach(region -> region.release(owner));
        regions.clear();
        if (file != null) {
            file.releaseLast();
            file = null;
            BufferUtil.free(zeros);
        }
    }
}
