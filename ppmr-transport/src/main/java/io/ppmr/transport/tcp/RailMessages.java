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
 * The messages by which both ends of a rail over RDMA connect, on that rail's TCP connection. The two ends alternate,
 * and each message has one frame. {@link TransferFailure} may replace any of them. Used by one thread at a time; does
 * not own the channel, which is in non-blocking mode.
 */
final class RailMessages {
    private static final int MAX_BYTES = 8 << 10;
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(1);

    private final SocketChannel channel;
    private final int attempt;
    private final ByteBuffer in = ByteBuffer.allocate(MAX_BYTES);
    private final UnsafeBuffer view = new UnsafeBuffer(in);
    private IOException failure;

    RailMessages(SocketChannel channel, int attempt) {
        this.channel = channel;
        this.attempt = attempt;
    }

    /** Sends a message to the other end. */
    void send(DataMessage message) throws IOException {
        ByteBuffer frame = ByteBuffer.wrap(message.frame(attempt).byteArray());
        // The send buffer of a new connection has space for these few bytes.
        channel.write(frame);
        if (frame.hasRemaining()) {
            throw new IOException("the other end of the rail accepts no bytes");
        }
    }

    /** Reads available bytes. Returns whether the next message is complete, or no message will arrive. */
    boolean hasArrived() {
        try {
            // Received bytes count, even if the other end closed the connection after them.
            if (!isComplete() && channel.read(in) < 0) {
                throw new EOFException("closed by the peer");
            }
            return isComplete();
        } catch (IOException e) {
            failure = e;
            return true;
        }
    }

    private boolean isComplete() throws ProtocolException {
        if (in.position() < Frame.HEADER_BYTES) {
            return false;
        }
        FrameType type = Frame.requireValid(view, 0);
        int lengthBytes = Frame.lengthBytes(view, 0);
        if (type != FrameType.MESSAGE || lengthBytes > MAX_BYTES || Frame.attempt(view, 0) != attempt) {
            throw new ProtocolException("frame " + type + " of " + lengthBytes + " bytes and attempt "
                    + Frame.attempt(view, 0) + " while a rail of attempt " + attempt + " is being connected");
        }
        return in.position() >= lengthBytes;
    }

    /**
     * Waits for the next message and returns it.
     *
     * @param limit the maximum wait
     * @param isUnwanted ends the wait
     * @throws IOException if the message is late or unexpected, or the other end reports a failure
     */
    <T extends DataMessage> T await(Class<T> wanted, Duration limit, BooleanSupplier isUnwanted) throws IOException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!hasArrived()) {
            if (isUnwanted.getAsBoolean() || System.nanoTime() - deadlineNs > 0) {
                throw new IOException(
                        "the other end of the rail sent no " + wanted.getSimpleName() + " within " + limit);
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
        if (failure != null) {
            throw failure instanceof ProtocolException
                    ? failure
                    : new IOException("the connection to the other end of the rail failed: " + failure, failure);
        }
        Message message = Message.read(view, 0, DataMessage::readFields);
        in.flip().position(Frame.lengthBytes(view, 0));
        in.compact();
        if (message instanceof TransferFailure failed) {
            throw new IOException("the other end of the rail reports: " + failed.reason());
        }
        if (!wanted.isInstance(message)) {
            throw new ProtocolException(message + " instead of " + wanted.getSimpleName());
        }
        return wanted.cast(message);
    }
}
