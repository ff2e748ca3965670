package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.MappedBytesStore;
import net.openhft.chronicle.bytes.MappedFile;
import net.openhft.chronicle.core.io.ReferenceOwner;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Room beside the pool for what must be kept longer than the pool can: a memory-mapped file of mode 0600 without a
 * name, so that nothing of an image outlives the service. It grows in steps, each written once before it is mapped: a
 * full disk then is an error by name and not a fault in somebody's copy.
 *
 * <p>One for each session, owned by the session's agent; the memory may be read and written by any thread.
 */
public final class StagingArea implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(StagingArea.class);
    private static final int STEP_BYTES = 16 * 1024 * 1024;

    private final Path directory;
    private final PoolGeometry geometry;
    private final long limitBytes;
    private final int firstIndex;
    private final ReferenceOwner owner = ReferenceOwner.temporary("staging");
    private final List<MappedBytesStore> steps = new ArrayList<>();
    private final List<ReceiveSlot> slots = new ArrayList<>();
    private final ArrayDeque<ReceiveSlot> free = new ArrayDeque<>();
    private MappedFile file;
    private String exhausted;

    /**
     * @param directory where the file is made; a directory in memory by default
     * @param limitBytes how large it may become, 0 for no staging
     * @param firstIndex index of the first slot
     */
    public StagingArea(Path directory, PoolGeometry geometry, long limitBytes, int firstIndex) {
        this.directory = directory;
        this.geometry = geometry;
        this.limitBytes = limitBytes;
        this.firstIndex = firstIndex;
    }

    /** A free slot, or null if there is none and none can be made; {@link #whyNone} says why. */
    ReceiveSlot claim() {
        if (free.isEmpty() && !grow()) {
            return null;
        }
        return free.poll();
    }

    void release(ReceiveSlot slot) {
        free.push(slot);
    }

    ReceiveSlot slot(int index) {
        int at = index - firstIndex;
        return at >= 0 && at < slots.size() ? slots.get(at) : null;
    }

    /** Why {@link #claim} gave nothing, or that it never did so. */
    String whyNone() {
        return exhausted == null ? "staging is not used up" : exhausted;
    }

    /** Bytes of staging in use. */
    public long usedBytes() {
        return (long) (slots.size() - free.size()) * geometry.chunkBytes();
    }

    private boolean grow() {
        long stepBytes = Math.max(STEP_BYTES, geometry.chunkBytes());
        long haveBytes = (long) slots.size() * geometry.chunkBytes();
        long newBytes = Math.min(stepBytes, limitBytes - haveBytes) / geometry.chunkBytes() * geometry.chunkBytes();
        if (newBytes <= 0) {
            exhausted = "staging is limited to " + limitBytes + " bytes";
            return false;
        }
        try {
            if (file == null) {
                file = open(stepBytes);
            }
            long start = steps.size() * stepBytes;
            fill(file.raf().getChannel(), start, newBytes);
            MappedBytesStore step = file.acquireByteStore(owner, start);
            steps.add(step);
            long address = step.addressForRead(start);
            for (long offset = 0; offset < newBytes; offset += geometry.chunkBytes()) {
                ReceiveSlot slot = new ReceiveSlot(firstIndex + slots.size(), -1, address + offset);
                slots.add(slot);
                free.add(slot);
            }
            return true;
        } catch (IOException | UncheckedIOException e) {
            exhausted = "staging in " + directory + " cannot grow beyond " + haveBytes + " bytes: " + e.getMessage();
            LOG.warn("{}", exhausted);
            return false;
        }
    }

    private MappedFile open(long stepBytes) throws IOException {
        Path path = Files.createTempFile(
                directory,
                "ppmr-staging-",
                "",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        try {
            return MappedFile.of(new File(path.toString()), stepBytes, 0, false);
        } finally {
            Files.delete(path);
        }
    }

    /** Has the filesystem set the room aside. */
    private static void fill(FileChannel channel, long start, long lengthBytes) throws IOException {
        ByteBuffer zeros = ByteBuffer.allocateDirect(1024 * 1024);
        for (long done = 0; done < lengthBytes; ) {
            zeros.position(0).limit((int) Math.min(zeros.capacity(), lengthBytes - done));
            done += channel.write(zeros, start + done);
        }
    }

    @Override
    public void close() {
        steps.forEach(step -> step.release(owner));
        steps.clear();
        if (file != null) {
            file.releaseLast();
            file = null;
        }
    }
}
