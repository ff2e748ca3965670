package io.ppmr.transport.tcp;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DataMessage.TransferFailure;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The words by which both ends of a rail over RDMA join, on that rail's connection of TCP: messages of one frame each,
 * of the two ends in turn. {@link TransferFailure} takes the place of any of them. Used by one thread at a time; does
 * not own the channel, which does not block.
 */
final class RailMessages {
    private static final int MOST_BYTES = 8 << 10;
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(1);

    private final SocketChannel channel;
    private final int attempt;
    private final ByteBuffer in = ByteBuffer.allocate(MOST_BYTES);
    private final UnsafeBuffer view = new UnsafeBuffer(in);
    private IOException failure;

    RailMessages(SocketChannel channel, int attempt) {
        this.channel = channel;
        this.attempt = attempt;
    }

    /** Says a word to the other end. */
    void send(DataMessage word) throws IOException {
        ByteBuffer frame = ByteBuffer.wrap(word.frame(attempt).byteArray());
        // So few bytes a new connection takes at once.
        channel.write(frame);
        if (frame.hasRemaining()) {
            throw new IOException("the other end of the rail takes no byte");
        }
    }

    /** Reads what is there; tells whether the next word has come whole, or none will come. */
    boolean hasArrived() {
        try {
            // What has come counts, though the other end has closed the connection behind it.
            if (!isWhole() && channel.read(in) < 0) {
                throw new EOFException("closed by it");
            }
            return isWhole();
        } catch (IOException e) {
            failure = e;
            return true;
        }
    }

    private boolean isWhole() throws ProtocolException {
        if (in.position() < Frame.HEADER_BYTES) {
            return false;
        }
        FrameType type = Frame.requireValid(view, 0);
        int lengthBytes = Frame.lengthBytes(view, 0);
        if (type != FrameType.MESSAGE || lengthBytes > MOST_BYTES || Frame.attempt(view, 0) != attempt) {
            throw new ProtocolException("frame " + type + " of " + lengthBytes + " bytes and attempt "
                    + Frame.attempt(view, 0) + " where a rail of attempt " + attempt + " was to be joined");
        }
        return in.position() >= lengthBytes;
    }

    /**
     * Waits for the next word and takes it.
     *
     * @param limit for how long it waits at most
     * @param isUnwanted ends the wait
     * @throws IOException if it has not come by then, is another one, or the other end says that it fails
     */
    <T extends DataMessage> T await(Class<T> wanted, Duration limit, BooleanSupplier isUnwanted) throws IOException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!hasArrived()) {
            if (isUnwanted.getAsBoolean() || System.nanoTime() - deadlineNs > 0) {
                throw new IOException(
                        "the other end of the rail has not said its " + wanted.getSimpleName() + " within " + limit);
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
        if (failure != null) {
            throw failure instanceof ProtocolException
                    ? failure
                    : new IOException("the other end of the rail cannot be heard: " + failure, failure);
        }
        Message word = Message.read(view, 0, DataMessage::readFields);
        in.flip().position(Frame.lengthBytes(view, 0));
        in.compact();
        if (word instanceof TransferFailure failed) {
            throw new IOException("the other end of the rail says: " + failed.reason());
        }
        if (!wanted.isInstance(word)) {
            throw new ProtocolException(word + " where " + wanted.getSimpleName() + " was due");
        }
        return wanted.cast(word);
    }
}
