package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.FilePlacement;
import io.ppmr.checkpoint.FilePlacer;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ImageException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.BufferUtil;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The arriving files of one rank. Its own thread passes their stream to a process of the job's user, which writes them
 * and moves them to their names. Made and ended by the migration's thread.
 */
final class FileArrival {
    private static final Logger LOG = LoggerFactory.getLogger(FileArrival.class);
    private static final Duration END_LIMIT = Duration.ofSeconds(20);
    /** Bytes of a stream for each file, in addition to its content and the heads of its pieces. */
    private static final int LINE_BYTES = 256;

    private static final int PIECE_BYTES = 1 << 12;

    private final int rank;
    private final FilePlacement placement;
    private final ArrivingFile stream;
    private final long limitBytes;
    private final AtomicLong arrivedBytes;
    private final Duration limit;
    private final PlacementNotes notes;
    private final NativePrograms programs;
    private final Path workRoot;
    private final Thread thread;

    private volatile boolean ended;
    private volatile boolean placed;
    private volatile String failure = "";
    private volatile FilePlacer placer;
    private volatile FilePlacement written;
    private boolean isReported;

    /**
     * Begins to receive.
     *
     * @param stream stream of the files
     * @param limitBytes maximum size of the files of all ranks, without holes
     * @param arrivedBytes size of the arrived files of all ranks
     * @param limit time limit
     * @param workRoot directory of a note of the process, for the next run of the service if this one dies
     */
    FileArrival(
            int rank,
            FilePlacement placement,
            ArrivingFile stream,
            long limitBytes,
            AtomicLong arrivedBytes,
            Duration limit,
            PlacementNotes notes,
            NativePrograms programs,
            Path workRoot) {
        this.rank = rank;
        this.placement = placement;
        this.stream = stream;
        this.limitBytes = limitBytes;
        this.arrivedBytes = arrivedBytes;
        this.limit = limit;
        this.notes = notes;
        this.programs = programs;
        this.workRoot = workRoot;
        thread = new Thread(this::run, "ppmr-file-arrival");
        thread.setDaemon(true);
        thread.start();
    }

    int rank() {
        return rank;
    }

    private void run() {
        try {
            notes.write(placement);
            try (FilePlacer started = FilePlacer.start(programs, placement, () -> ended)) {
                placer = started;
                OrphanedCommand.note(workRoot, List.of(new ProcessTable().of(started.pid())));
                written = started.write(new Stream(), limit);
                notes.write(written);
                started.place();
            }
            placed = true;
        } catch (IOException | CheckpointException | RuntimeException e) {
            failure = String.valueOf(e.getMessage());
            LOG.debug("the files of rank {} were not placed", rank, e);
        }
    }

    /** Reads the bytes of the stream as they arrive, and frees their room here. */
    private final class Stream implements FilePlacer.Content {
        private final long mostBytes =
                limitBytes + limitBytes / PIECE_BYTES * Long.BYTES * 2 + (long) LINE_BYTES * CarryPolicy.MOST_FILES;
        private ByteBuffer room = ByteBuffer.allocateDirect(0);
        private long offset;

        @Override
        public int next(byte[] buffer) throws IOException {
            if (room.capacity() < buffer.length) {
                room = ByteBuffer.allocateDirect(buffer.length);
            }
            int bytes = stream.read(BufferUtil.address(room), buffer.length, offset);
            if (bytes < 0) {
                throw new IOException("the files of rank " + rank + " did not arrive: the transfer failed");
            }
            release(bytes);
            offset += bytes;
            if (arrivedBytes.addAndGet(bytes) > mostBytes) {
                throw new IOException("the files that move with the job have more than " + limitBytes
                        + " bytes, which this node's configuration allows (copy_limit)");
            }
            room.clear();
            room.get(buffer, 0, bytes);
            return bytes;
        }

        /** Frees the room of bytes that were passed on. */
        private void release(int bytes) throws IOException {
            try {
                if (bytes > 0) {
                    stream.punchHole(offset, bytes);
                }
            } catch (ImageException e) {
                throw new IOException("staging cannot be written: " + e.getMessage(), e);
            }
        }
    }

    /** Returns true once, when the files are in place. The migration's thread. */
    boolean isNewlyPlaced() {
        boolean now = placed && !isReported;
        isReported |= now;
        return now;
    }

    boolean isPlaced() {
        return placed;
    }

    /** Returns why the files will not be in place, or empty while that is unknown. */
    Optional<String> failure() {
        return Optional.of(failure).filter(why -> !why.isEmpty());
    }

    /** Throws if a file lost its name, because the restored process has opened that name. */
    void verify() throws CheckpointException {
        try (FilePlacer looks = FilePlacer.start(programs, written, () -> ended)) {
            looks.verify();
        }
    }

    /** Ends the process, and waits for its thread. Returns false if it does not end in time. */
    boolean end() {
        ended = true;
        boolean interrupted = false;
        boolean gone = false;
        try {
            // The thread ends as soon as it reads that flag, and has closed its process then.
            FilePlacer current = placer;
            if (current != null) {
                current.end(END_LIMIT);
            }
            thread.join(END_LIMIT.toMillis());
            current = placer;
            gone = current == null || current.end(END_LIMIT);
        } catch (InterruptedException e) {
            interrupted = true;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return gone && !thread.isAlive();
    }
}
