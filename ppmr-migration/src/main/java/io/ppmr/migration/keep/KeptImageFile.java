package io.ppmr.migration.keep;

import io.ppmr.migration.keep.KeptImageWriter.Block;
import io.ppmr.source.image.ImageTee.FileCopy;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import java.util.zip.CRC32C;

/**
 * One file of a copy. Writers of the image add changes under the image file's lock. The copy's thread, which owns all
 * other fields, applies them. A growing file has a number. It gets its name when the image is complete, so that renames
 * and removals need not be followed.
 */
final class KeptImageFile implements FileCopy {
    private final KeptImageWriter copy;
    private final int number;
    private final CRC32C crc = new CRC32C();
    private FileChannel channel;
    private Path path;
    private long sizeBytes;
    private long crcToOffset;
    private boolean inOrder = true;

    KeptImageFile(KeptImageWriter copy, int number) {
        this.copy = copy;
        this.number = number;
    }

    @Override
    public void write(long address, int lengthBytes, long offset) {
        for (int done = 0; done < lengthBytes; ) {
            int step = Math.min(lengthBytes - done, KeptImageWriter.BLOCK_BYTES);
            Block block = copy.takeBlock();
            if (block == null) {
                return;
            }
            block.write(this, address + done, step, offset + done);
            copy.fill(block);
            done += step;
        }
    }

    @Override
    public void truncate(long newSizeBytes) {
        Block block = copy.takeBlock();
        if (block != null) {
            block.truncate(this, newSizeBytes);
            copy.fill(block);
        }
    }

    // ---- the copy's thread ------------------------------------------------------------------------------------

    /** Applies a change. The file is open afterwards. */
    void apply(Block block, Path data) throws IOException {
        open(data);
        if (block.truncates()) {
            cut(block.offset());
            return;
        }
        ByteBuffer bytes = block.bytes();
        int lengthBytes = bytes.remaining();
        if (inOrder && block.offset() == crcToOffset) {
            crc.update(bytes.duplicate());
            crcToOffset += lengthBytes;
        } else {
            inOrder = false;
        }
        for (long at = block.offset(); bytes.hasRemaining(); ) {
            at += channel.write(bytes, at);
        }
        sizeBytes = Math.max(sizeBytes, block.offset() + lengthBytes);
    }

    private void cut(long newSizeBytes) throws IOException {
        if (newSizeBytes < channel.size()) {
            channel.truncate(newSizeBytes);
        }
        sizeBytes = newSizeBytes;
        if (newSizeBytes == 0) {
            crc.reset();
            crcToOffset = 0;
            inOrder = true;
        } else if (newSizeBytes < crcToOffset) {
            inOrder = false;
        }
    }

    private void open(Path data) throws IOException {
        if (channel == null) {
            boolean fresh = path == null;
            path = data.resolve(Integer.toString(number));
            Set<StandardOpenOption> how = fresh
                    ? Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW)
                    : Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE);
            channel = FileChannel.open(
                    path, how, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        }
    }

    /** Closes the file's descriptor. A later change opens it again. */
    void close() throws IOException {
        if (channel != null) {
            FileChannel open = channel;
            channel = null;
            open.close();
        }
    }

    /**
     * Gives the file its full size, and syncs it to the disk. The image is complete.
     *
     * @param buffer buffer to read the file again, if it was not written in order
     * @return its CRC32C
     */
    int finish(Path data, long finalSizeBytes, ByteBuffer buffer) throws IOException {
        if (finalSizeBytes != sizeBytes) {
            throw new IOException(
                    "file " + number + " of the copy has " + sizeBytes + " bytes, but the image has " + finalSizeBytes);
        }
        open(data);
        if (channel.size() < sizeBytes) {
            channel.write(ByteBuffer.allocate(1), sizeBytes - 1);
        }
        int result = inOrder && crcToOffset == sizeBytes ? (int) crc.getValue() : readCrc(buffer);
        channel.force(true);
        close();
        return result;
    }

    private int readCrc(ByteBuffer buffer) throws IOException {
        crc.reset();
        long at = 0;
        while (at < sizeBytes) {
            buffer.clear();
            int got = channel.read(buffer, at);
            if (got < 0) {
                throw new IOException(path + " ends early, at " + at);
            }
            crc.update(buffer.flip());
            at += got;
        }
        return (int) crc.getValue();
    }

    /** Moves the file to its name. */
    void moveTo(Path name) throws IOException {
        if (Files.exists(name, LinkOption.NOFOLLOW_LINKS)) {
            throw new IOException(name + " already exists");
        }
        Files.move(path, name);
    }
}
