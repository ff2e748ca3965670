package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * A file at which a program waits that was started in advance, {@code ppmr-launch --gate}. This service has it locked
 * until it opens the gate, which writes a byte first. If the service dies, the kernel drops the lock, and the program
 * ends since the file is empty. Owned by one thread at a time.
 */
final class StartGate implements AutoCloseable {
    private static final byte[] OPEN = {'1'};

    private final Path file;
    private final FileChannel channel;

    private StartGate(Path file, FileChannel channel) {
        this.file = file;
        this.channel = channel;
    }

    /** Makes a gate. Call it before the program is started. */
    static StartGate create(Path file) throws IOException {
        FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        boolean isLocked = false;
        try {
            isLocked = channel.tryLock() != null;
            if (!isLocked) {
                throw new IOException(file + " is locked by another process");
            }
            return new StartGate(file, channel);
        } finally {
            if (!isLocked) {
                channel.close();
            }
        }
    }

    Path file() {
        return file;
    }

    /** Lets the program run. */
    void open() throws IOException {
        try (channel) {
            channel.write(ByteBuffer.wrap(OPEN));
        }
    }

    /** Ends the waiting program, unless the gate was opened before. */
    @Override
    public void close() throws IOException {
        channel.close();
    }
}
