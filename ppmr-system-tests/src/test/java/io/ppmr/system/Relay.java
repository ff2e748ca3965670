package io.ppmr.system;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.testbed.Conditions;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The network in front of a target, under the control of a test. Every connection to the target, from a source or
 * another target, passes through it. It reads the frames of control connections as they pass, where these are not
 * encrypted. So it can stop all traffic at a message of a kind, while that is on its way. Then the message and all
 * other traffic may continue, or is lost. A cut resets nothing. Sent bytes are discarded, on new connections, too.
 *
 * <p>It is safe for any thread. Its owner closes it. Until then it has a thread for each direction of each connection.
 */
final class Relay implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Relay.class);
    private static final int HELLO_BYTES = 56;
    private static final byte TLS_HANDSHAKE = 0x16;
    private static final int KIND_OFFSET = 7;
    private static final int KIND_CONTROL = 1;
    private static final int PROOF_BYTES = 32;
    private static final int VERDICT_BYTES = 4;
    private static final int BUFFER_BYTES = 64 << 10;
    private static final int TYPE_OFFSET = 5;
    private static final long HOLD_LIMIT_NS = TimeUnit.SECONDS.toNanos(60);

    private enum Mode {
        PASS,
        HOLD,
        CUT
    }

    private final ServerSocket server;
    private final int targetPort;
    private final List<Wire> wires = new CopyOnWriteArrayList<>();
    private final Object gate = new Object();
    private Mode mode = Mode.PASS;
    private Class<? extends Message> awaited;
    private Message held;
    private boolean heldMayGo;
    private final Set<Class<?>> seenBehind = new HashSet<>();

    /** Begins to listen, on a free port of this machine. */
    Relay(int targetPort) throws IOException {
        this.targetPort = targetPort;
        server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
        daemon(this::accept, "relay-listen");
    }

    /** Returns the port through which the target is reached. */
    int port() {
        return server.getLocalPort();
    }

    // ---- what a test does ------------------------------------------------------------------------------------------

    /** Holds the next message of this kind, and all other traffic with it. */
    void holdAt(Class<? extends Message> kind) {
        synchronized (gate) {
            awaited = kind;
            held = null;
            heldMayGo = false;
            seenBehind.clear();
        }
    }

    /** Waits until it is held up. */
    void awaitHeld() throws Exception {
        Conditions.until("a message is on its way", () -> {
            synchronized (gate) {
                return held != null;
            }
        });
    }

    /** The message continues, and all other traffic stays held, even the death of an end. */
    void passMessage() {
        synchronized (gate) {
            heldMayGo = true;
            gate.notifyAll();
        }
    }

    /** Waits until a message of this kind arrives behind the held one. It is held, too. */
    void awaitBehind(Class<? extends Message> kind) throws Exception {
        Conditions.until("there is a " + kind.getSimpleName() + " behind the message that was held up", () -> {
            synchronized (gate) {
                return seenBehind.contains(kind);
            }
        });
    }

    /** Passes all held traffic, and all later traffic. */
    void pass() {
        become(Mode.PASS);
    }

    /** Loses all held traffic, with every existing connection. Later connections pass. */
    void lose() {
        wires.forEach(wire -> wire.silent = true);
        become(Mode.PASS);
        wires.forEach(Wire::close);
    }

    /** Nothing passes from now on, and nothing is reset. */
    void cut() {
        wires.forEach(wire -> wire.silent = true);
        become(Mode.CUT);
    }

    /** Existing connections pass nothing and are not reset. Later connections pass. */
    void silence() {
        wires.forEach(wire -> wire.silent = true);
        become(Mode.PASS);
    }

    /** New connections pass again. */
    void heal() {
        become(Mode.PASS);
        wires.stream().filter(wire -> wire.silent).forEach(Wire::close);
    }

    private void become(Mode next) {
        synchronized (gate) {
            mode = next;
            awaited = null;
            gate.notifyAll();
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
        lose();
    }

    // ---- the connections -------------------------------------------------------------------------------------------

    private void accept() {
        while (!server.isClosed()) {
            try {
                Socket client = server.accept();
                Wire wire = new Wire(client);
                wires.add(wire);
                synchronized (gate) {
                    wire.silent = mode == Mode.CUT;
                }
                daemon(wire::toTarget, "relay-to-target");
            } catch (IOException e) {
                LOG.debug("the relay to {} accepts nothing: {}", targetPort, e.toString());
            }
        }
    }

    private static void daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * Waits while all traffic is held. Holds all traffic if this is the message for it.
     *
     * @param missed whether it waits while traffic is held; otherwise it is dropped, so that the next message does not
     *     wait behind it
     * @return whether it continues
     */
    private boolean go(Message message, boolean missed) throws IOException {
        synchronized (gate) {
            if (mode == Mode.HOLD && message != null) {
                seenBehind.add(message.getClass());
            }
            if (message != null && awaited != null && awaited.isInstance(message) && mode == Mode.PASS) {
                mode = Mode.HOLD;
                held = message;
            }
            long deadlineNs = System.nanoTime() + HOLD_LIMIT_NS;
            while (mode == Mode.HOLD && !(heldMayGo && held.equals(message))) {
                if (!missed) {
                    return false;
                }
                long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
                if (leftMs <= 0) {
                    throw new IOException("nobody has decided about " + held + " within a minute");
                }
                try {
                    gate.wait(leftMs);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new IOException("interrupted", e);
                }
            }
            return true;
        }
    }

    /** A connection to the target, in two halves. */
    private final class Wire {
        private final Socket client;
        private volatile Socket target;
        private volatile boolean silent;

        Wire(Socket client) {
            this.client = client;
        }

        void toTarget() {
            try (client) {
                client.setTcpNoDelay(true);
                if (silent) {
                    swallow(client.getInputStream());
                    return;
                }
                target = new Socket(InetAddress.getLoopbackAddress(), targetPort);
                target.setTcpNoDelay(true);
                daemon(this::toClient, "relay-to-client");
                half(client.getInputStream(), target, PROOF_BYTES);
            } catch (IOException e) {
                LOG.debug("a connection to {} ends: {}", targetPort, e.toString());
            } finally {
                endOther(target);
            }
        }

        private void toClient() {
            try (Socket from = target) {
                half(from.getInputStream(), client, PROOF_BYTES + VERDICT_BYTES);
            } catch (IOException e) {
                LOG.debug("a connection from {} ends: {}", targetPort, e.toString());
            } finally {
                endOther(client);
            }
        }

        /** Closes the other end, unless no traffic passes. */
        private void endOther(Socket other) {
            if (other != null) {
                try {
                    go(null, true);
                    if (silent) {
                        return;
                    }
                    // It is not closed, because that would reset it, and its unread bytes would be lost.
                    other.shutdownOutput();
                } catch (IOException e) {
                    LOG.debug("the other end is gone, too: {}", e.toString());
                }
            }
        }

        void close() {
            closeQuietly(client);
            if (target != null) {
                closeQuietly(target);
            }
        }

        /** One direction. Each side opens with a hello or a challenge of the same head. The following bytes differ. */
        private void half(InputStream from, Socket to, int proofBytes) throws IOException {
            DataInputStream in = new DataInputStream(from);
            OutputStream out = to.getOutputStream();
            byte[] hello = new byte[HELLO_BYTES];
            in.readFully(hello, 0, 1);
            if (hello[0] == TLS_HANDSHAKE) {
                forward(out, hello, 1, null, true);
                rest(in, out);
                return;
            }
            in.readFully(hello, 1, HELLO_BYTES - 1);
            forward(out, hello, hello.length, null, true);
            byte[] proof = new byte[proofBytes];
            in.readFully(proof, 0, PROOF_BYTES);
            forward(out, proof, PROOF_BYTES, null, true);
            if (proofBytes > PROOF_BYTES) {
                in.readFully(proof, 0, proofBytes - PROOF_BYTES);
                forward(out, proof, proofBytes - PROOF_BYTES, null, true);
            }
            if (hello[KIND_OFFSET] == KIND_CONTROL) {
                frames(in, out);
            } else {
                rest(in, out);
            }
        }

        private void rest(InputStream in, OutputStream out) throws IOException {
            byte[] bytes = new byte[BUFFER_BYTES];
            for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
                forward(out, bytes, n, null, true);
            }
        }

        private void frames(DataInputStream in, OutputStream out) throws IOException {
            byte[] frame = new byte[Frame.MAX_FRAME_BYTES];
            while (true) {
                in.readFully(frame, 0, Integer.BYTES);
                int lengthBytes =
                        ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN).getInt();
                if (lengthBytes < Frame.HEADER_BYTES || lengthBytes > frame.length) {
                    throw new EOFException("a frame of " + lengthBytes + " bytes");
                }
                in.readFully(frame, Integer.BYTES, lengthBytes - Integer.BYTES);
                Message message = message(frame, lengthBytes);
                boolean missed =
                        frame[TYPE_OFFSET] != FrameType.HEARTBEAT.code() && !(message instanceof DataMessage.Progress);
                forward(out, frame, lengthBytes, message, missed);
            }
        }

        private Message message(byte[] frame, int lengthBytes) throws ProtocolException {
            return frame[TYPE_OFFSET] == FrameType.MESSAGE.code()
                    ? ControlMessage.read(new UnsafeBuffer(frame, 0, lengthBytes), 0)
                    : null;
        }

        private void forward(OutputStream out, byte[] bytes, int lengthBytes, Message message, boolean missed)
                throws IOException {
            if (go(message, missed) && !silent) {
                try {
                    out.write(bytes, 0, lengthBytes);
                } catch (IOException e) {
                    // The opposite direction is still forwarded, to its end.
                    LOG.debug("{} bytes reach nobody: {}", lengthBytes, e.toString());
                }
            }
        }

        private void swallow(InputStream in) throws IOException {
            byte[] bytes = new byte[BUFFER_BYTES];
            int n = in.read(bytes);
            while (n >= 0) {
                n = in.read(bytes);
            }
        }
    }

    private static void closeQuietly(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            LOG.debug("closing a connection: {}", e.toString());
        }
    }
}
