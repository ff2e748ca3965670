package io.ppmr.migration;

import io.ppmr.linux.LogContext;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Supplier;
import org.agrona.DirectBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends messages about a migration to a target without a session. It connects when there is a message, and again if
 * that connection is lost. Messages that cannot be sent are dropped, because the sender repeats those that need an
 * answer. It has its own thread until it is closed.
 */
public final class ReconnectingLink implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ReconnectingLink.class);
    private static final int WAITING_MESSAGES = 4;
    private static final long AGENT_SLEEP_MS = 500;
    private static final long JOIN_MS = 10_000;

    /** Receives the target's messages, on another thread. */
    @FunctionalInterface
    public interface ReplyListener {
        /**
         * Handles a message of this many bytes on the wire.
         *
         * @throws ProtocolException if the target sends too much. The connection ends then.
         */
        void onReply(Message message, int lengthBytes) throws ProtocolException;
    }

    private final Supplier<Connector> connector;
    private final String target;
    private final int attempt;
    private final long silenceLimitNs;
    private final ControlMessage.Participation introduction;
    private final ReplyListener answers;
    /** The messages to send. An empty element makes the thread check for a close or a lost connection. */
    private final BlockingQueue<Optional<Message>> outgoing = new LinkedBlockingQueue<>();

    private final Thread thread;
    private volatile boolean closed;

    /**
     * @param connector called on the link's own thread for each connection, because it may look up a name
     *
     * @param target its name, for messages
     * @param attempt number in every frame
     * @param introduction first message on every connection
     * @param answers listener for the target's messages, on another thread
     */
    public ReconnectingLink(
            Supplier<Connector> connector,
            String target,
            int attempt,
            Duration silenceLimit,
            ControlMessage.Participation introduction,
            ReplyListener answers) {
        this.connector = connector;
        this.target = target;
        this.attempt = attempt;
        this.silenceLimitNs = silenceLimit.toNanos();
        this.introduction = introduction;
        this.answers = answers;
        thread = LogContext.thread(this::run, "ppmr-courier-" + target);
        thread.start();
    }

    /** Sends the message as soon as possible, or drops it if too many wait already. */
    public void send(Message message) {
        if (outgoing.size() < WAITING_MESSAGES) {
            outgoing.add(Optional.of(message));
        } else {
            LOG.debug("{} for {} dropped; its sender repeats it", message, target);
        }
    }

    private void run() {
        try {
            while (!closed) {
                Optional<Message> message = outgoing.take();
                if (message.isPresent()) {
                    useConnection(message.get());
                }
            }
            // Messages that were added before the close are still sent, because the last one may end a migration.
            Message last = nextRemaining();
            if (last != null) {
                useConnection(last);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns the next remaining message, or null. */
    private Message nextRemaining() {
        Optional<Message> left = Optional.empty();
        while (left != null && left.isEmpty()) {
            left = outgoing.poll();
        }
        return left == null ? null : left.get();
    }

    /** Uses one connection, from its first message until it is lost. */
    private void useConnection(Message first) throws InterruptedException {
        try {
            Connector.Control control = connector.get().control();
            useConnection(first, new ControlLink(control.channel(), control.version(), attempt, silenceLimitNs));
        } catch (IOException e) {
            LOG.warn("{} could not be sent to {}: {}", first.getClass().getSimpleName(), target, e.getMessage());
        }
    }

    private void useConnection(Message first, ControlLink connected) throws IOException, InterruptedException {
        try (ControlLink link = connected) {
            Conversation useConnection = new Conversation();
            SessionAgent agent = new SessionAgent("ppmr-courier-link", link, ControlMessage::read, useConnection);
            agent.start();
            try {
                link.send(introduction);
                Message message = first;
                while ((message != null || !closed) && !useConnection.lost) {
                    if (message != null) {
                        link.send(message);
                    }
                    message = closed ? nextRemaining() : outgoing.take().orElse(null);
                }
            } finally {
                agent.stop();
            }
        }
    }

    @Override
    public void close() {
        closed = true;
        wakeThread();
        try {
            thread.join(JOIN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void wakeThread() {
        outgoing.add(Optional.empty());
    }

    /** One connection, until it is lost. Its thread is the agent's. */
    private final class Conversation implements SessionAgent.End {
        private volatile boolean lost;

        @Override
        public void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
            throw new ProtocolException("frame " + type + " of " + lengthBytes + " bytes outside of a session");
        }

        @Override
        public void onMessage(Message message, int lengthBytes) throws IOException {
            answers.onReply(message, lengthBytes);
        }

        @Override
        public int doWork(long nowNs) {
            return 0;
        }

        @Override
        public boolean hasWork() {
            return false;
        }

        @Override
        public long sleepMs() {
            return AGENT_SLEEP_MS;
        }

        @Override
        public void onLost(String reason) {
            LOG.debug("the connection to {} is lost: {}", target, reason);
            lost = true;
            wakeThread();
        }
    }
}
