package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.FileLooker;
import io.ppmr.checkpoint.files.CarriedFile;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.source.image.OutgoingFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.agrona.BufferUtil;

/**
 * Writes the files of a held rank that move with it into one stream of its image. {@code ppmr-place} reads that stream.
 * The files are read as the job's user. For one rank; owned by a thread of its own, because writes wait for the target.
 */
final class DepartingFiles {
    private static final int ROOM_BYTES = 1 << 18;
    private static final int PIECE_HEAD_BYTES = Long.BYTES + Integer.BYTES;

    private final FileLooker looker;
    private final OutgoingFile out;
    private final long limitBytes;
    /** The native memory from which the stream reads its bytes. */
    private final ByteBuffer room = ByteBuffer.allocateDirect(ROOM_BYTES);

    private final Map<CarriedFile, FileFacts> read = new LinkedHashMap<>();
    private long offset;
    private long dataBytes;

    /**
     * @param looker reads as the job's user
     *
     * @param out the stream
     * @param limitBytes maximum size of the files, without holes
     */
    DepartingFiles(FileLooker looker, OutgoingFile out, long limitBytes) {
        this.looker = looker;
        this.out = out;
        this.limitBytes = limitBytes;
    }

    /**
     * Writes all files, and ends the stream.
     *
     * @param most time limit
     * @return size of the files, without their holes
     */
    long send(List<CarriedFile> files, Duration most) throws CheckpointException, IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + most.toNanos();
        out.opened();
        for (CarriedFile file : files) {
            FileLooker.Question question = new FileLooker.Question(file.file().link(), file.path());
            Duration left = Duration.ofNanos(Math.max(0, deadlineNs - System.nanoTime()));
            looker.read(question, new OneFile(file), left);
            head(0, 0);
        }
        drain();
        // A failed stream is left as it is, because its session failed, too.
        out.closed();
        out.end(deadlineNs, () -> false);
        return dataBytes;
    }

    /** Returns each file with its facts when it was read. */
    Map<CarriedFile, FileFacts> read() {
        return read;
    }

    /** Throws if the path leads to another file than the one that the job has open. */
    static void requireSame(CarriedFile file, FileFacts found) throws IOException {
        if (!found.inode().equals(file.inode())
                || !found.device().equals(file.device())
                || !found.isRegular()
                || found.links() != 1) {
            throw new IOException(
                    file.file() + ", and its path leads to another file now. Remedy: have the job open its"
                            + " file again, and do not rename it during the migration");
        }
    }

    /** Reads one file on a thread of the looker, while the owner's waits for it. */
    private final class OneFile implements FileLooker.Runs {
        private final CarriedFile file;

        OneFile(CarriedFile file) {
            this.file = file;
        }

        @Override
        public void begin(FileFacts facts) throws IOException {
            requireSame(file, facts);
            read.put(file, facts);
            put("file %o %d %d %s\n"
                    .formatted(facts.permissions(), facts.gid(), facts.lengthBytes(), facts.modified())
                    .getBytes(StandardCharsets.US_ASCII));
        }

        @Override
        public void piece(long at, byte[] bytes, int length) throws IOException {
            dataBytes += length;
            if (dataBytes > limitBytes) {
                throw new IOException("the files that move with the job now have more than " + limitBytes
                        + " bytes (copy_limit). Remedy: raise copy_limit in [files] at both nodes, or share the"
                        + " folder");
            }
            head(at, length);
            put(bytes, length);
        }
    }

    private void head(long at, int length) throws IOException {
        put(ByteBuffer.allocate(PIECE_HEAD_BYTES).putLong(at).putInt(length).array());
    }

    private void put(byte[] bytes) throws IOException {
        put(bytes, bytes.length);
    }

    private void put(byte[] bytes, int length) throws IOException {
        if (room.remaining() < length) {
            drain();
        }
        room.put(bytes, 0, length);
    }

    private void drain() throws IOException {
        int length = room.position();
        int written = length == 0 ? 0 : out.write(BufferUtil.address(room), length, offset);
        if (written != length) {
            throw new IOException("the files of the job cannot be sent: the transfer has failed");
        }
        offset += length;
        room.clear();
    }
}
