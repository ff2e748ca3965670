package io.ppmr.transaction.journal;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import net.openhft.chronicle.bytes.MappedBytesStore;
import net.openhft.chronicle.bytes.MappedFile;
import net.openhft.chronicle.core.io.ReferenceOwner;

/**
 * One file of a journal, mapped as a whole. Its disk space is reserved when it is made, so that a full disk is an error
 * then and not a fault later. {@link JournalLayout} has the layout. Owned by {@link MappedJournal}, under its lock.
 */
final class JournalFile implements AutoCloseable {
    private final Path path;
    private final long capacityBytes;
    private final ReferenceOwner owner = ReferenceOwner.temporary("journal");
    private final MappedFile file;
    private final MappedBytesStore store;
    /** The mapped memory, for reading. */
    private final ByteBuffer view;

    private long endOffset = JournalLayout.HEADER_BYTES;
    private boolean dirty;

    private JournalFile(Path path, long capacityBytes) throws IOException {
        this.path = path;
        this.capacityBytes = capacityBytes;
        this.file = MappedFile.of(new File(path.toString()), capacityBytes, 0, false);
        this.store = file.acquireByteStore(owner, 0);
        this.view = JournalLayout.map(path);
    }

    /** Makes an empty file of mode 0600. */
    static JournalFile create(Path path, long capacityBytes) throws IOException {
        Files.deleteIfExists(path);
        Set<StandardOpenOption> options = Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        try (FileChannel channel = FileChannel.open(
                path, options, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")))) {
            ByteBuffer zeros = ByteBuffer.allocate(64 * 1024);
            for (long done = 0; done < capacityBytes; ) {
                zeros.clear().limit((int) Math.min(zeros.capacity(), capacityBytes - done));
                done += channel.write(zeros, done);
            }
            channel.write(ByteBuffer.wrap(JournalLayout.magic()), 0);
            channel.force(true);
        } catch (IOException e) {
            Files.deleteIfExists(path);
            throw new IOException(
                    "the journal " + path + " cannot reserve " + capacityBytes + " bytes; make room:  "
                            + e.getMessage(),
                    e);
        }
        return new JournalFile(path, capacityBytes);
    }

    /**
     * Opens a file and continues behind its last whole record. A torn record is overwritten with zeros. A file of
     * version 1 is changed to version 2.
     */
    static JournalFile open(Path path, int endOffset) throws IOException {
        JournalFile opened = new JournalFile(path, Files.size(path));
        opened.endOffset = endOffset;
        int version = JournalLayout.HEADER_BYTES - 1;
        byte current = JournalLayout.magic()[version];
        if (opened.store.readByte(version) != current) {
            // The new version is on the disk before the first record that the older release cannot read.
            opened.store.writeByte(version, current);
            opened.force();
        }
        for (long offset = endOffset; offset < opened.capacityBytes; offset += Long.BYTES) {
            if (opened.store.readLong(offset) != 0) {
                opened.store.writeLong(offset, 0);
                opened.dirty = true;
            }
        }
        return opened;
    }

    /** Returns the whole file; records end at {@link #endOffset}. */
    ByteBuffer view() {
        return view;
    }

    /** Returns the offset of the next record. */
    int endOffset() {
        return (int) endOffset;
    }

    /** Returns true if the frame still fits. */
    boolean hasRoom(byte[] frame) {
        return endOffset + frame.length <= capacityBytes;
    }

    /**
     * Adds a frame of {@link JournalLayout#frame}. The length is written last, so that a record is whole or not there.
     */
    void add(byte[] frame, boolean sync) throws IOException {
        if (sync && dirty) {
            // All bytes before a synced record are on the disk before it. Therefore a gap before one is damage.
            force();
        }
        for (int i = Integer.BYTES; i < frame.length; i++) {
            store.writeByte(endOffset + i, frame[i]);
        }
        store.writeOrderedInt(
                endOffset, Integer.reverseBytes(ByteBuffer.wrap(frame).getInt(0)));
        dirty = true;
        if (sync) {
            try {
                force();
            } catch (IOException e) {
                store.writeOrderedInt(endOffset, 0);
                throw e;
            }
        }
        endOffset += frame.length;
    }

    /** Writes all pages to the disk, including those that were changed through the mapping (fsync(2)). */
    void force() throws IOException {
        try {
            file.raf().getChannel().force(false);
            dirty = false;
        } catch (IOException e) {
            throw new IOException("the journal " + path + " cannot be synced: " + e.getMessage(), e);
        }
    }

    @Override
    public void close() {
        store.release(owner);
        file.releaseLast();
    }
}
