package io.ppmr.transport;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.channels.spi.SelectorProvider;
import java.util.Set;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/**
 * A connection whose peer is simulated by a test. The peer's messages are arguments, and may depend on the last message
 * that it received. Then the peer closes. It is for one thread, except that another one may write bytes that are not
 * answered.
 */
public final class PlayedChannel extends SocketChannel {
    private static final InetSocketAddress PEER = new InetSocketAddress(InetAddress.getLoopbackAddress(), 9);

    private final Supplier<byte[]> first;
    private final UnaryOperator<byte[]> answers;
    private ByteBuffer coming = ByteBuffer.allocate(0);
    private boolean begun;
    private long toldBytes;

    /**
     * @param first the peer's messages without a request, computed when they are read
     * @param answers its answers to received messages
     */
    public PlayedChannel(Supplier<byte[]> first, UnaryOperator<byte[]> answers) {
        super(SelectorProvider.provider());
        this.first = first;
        this.answers = answers;
    }

    /** Returns the number of bytes that it received. */
    public long toldBytes() {
        return toldBytes;
    }

    @Override
    public int read(ByteBuffer into) {
        if (!begun) {
            begun = true;
            say(first.get());
        }
        if (!coming.hasRemaining()) {
            return -1;
        }
        int length = Math.min(coming.remaining(), into.remaining());
        into.put(coming.slice(coming.position(), length));
        coming.position(coming.position() + length);
        return length;
    }

    @Override
    public int write(ByteBuffer from) {
        byte[] told = new byte[from.remaining()];
        from.get(told);
        toldBytes += told.length;
        say(answers.apply(told));
        return told.length;
    }

    private void say(byte[] more) {
        if (more.length > 0) {
            ByteBuffer all = ByteBuffer.allocate(coming.remaining() + more.length);
            coming = all.put(coming).put(more).flip();
        }
    }

    @Override
    public Socket socket() {
        return new Socket() {
            @Override
            public void setSoTimeout(int timeoutMs) {
                // No call here waits.
            }

            @Override
            public InputStream getInputStream() {
                return new InputStream() {
                    @Override
                    public int read() {
                        byte[] one = new byte[1];
                        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
                    }

                    @Override
                    public int read(byte[] into, int offset, int length) {
                        return PlayedChannel.this.read(ByteBuffer.wrap(into, offset, length));
                    }
                };
            }
        };
    }

    @Override
    public SocketAddress getRemoteAddress() {
        return PEER;
    }

    @Override
    public SocketAddress getLocalAddress() {
        return PEER;
    }

    @Override
    public long read(ByteBuffer[] into, int offset, int length) {
        throw new UnsupportedOperationException("nothing here reads so");
    }

    @Override
    public long write(ByteBuffer[] from, int offset, int length) throws IOException {
        long written = 0;
        for (int i = offset; i < offset + length; i++) {
            written += write(from[i]);
        }
        return written;
    }

    @Override
    public <T> SocketChannel setOption(SocketOption<T> name, T value) {
        return this;
    }

    @Override
    public <T> T getOption(SocketOption<T> name) {
        return null;
    }

    @Override
    public Set<SocketOption<?>> supportedOptions() {
        return Set.of();
    }

    @Override
    public SocketChannel bind(SocketAddress local) {
        return this;
    }

    @Override
    public SocketChannel shutdownInput() {
        return this;
    }

    @Override
    public SocketChannel shutdownOutput() {
        return this;
    }

    @Override
    public boolean isConnected() {
        return true;
    }

    @Override
    public boolean isConnectionPending() {
        return false;
    }

    @Override
    public boolean connect(SocketAddress remote) {
        return true;
    }

    @Override
    public boolean finishConnect() {
        return true;
    }

    @Override
    protected void implCloseSelectableChannel() {
        // There is no descriptor behind it.
    }

    @Override
    protected void implConfigureBlocking(boolean block) {
        // It never blocks.
    }
}
