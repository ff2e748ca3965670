package io.ppmr.migration;

import io.ppmr.os.LogContext;
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
 * Carries messages about a migration to a target with which there is no session: connects when there is something to
 * say, and again when that connection is lost. What cannot be said is dropped; who needs an answer says it again. Has a
 * thread of its own until it is closed.
 */
public final class ReconnectingLink implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ReconnectingLink.class);
    private static final int WAITING_MESSAGES = 4;
    private static final long AGENT_SLEEP_MS = 500;
    private static final long JOIN_MS = 10_000;

    /** Takes the target's messages, on another thread. */
    @FunctionalInterface
    public interface ReplyListener {
        /**
         * Handles a message of this many bytes on the wire.
         *
         * @throws ProtocolException if the target sends more than is dealt with: the connection ends
         */
        void onReply(Message message, int lengthBytes) throws ProtocolException;
    }

    private final Supplier<Connector> connector;
    private final String target;
    private final int attempt;
    private final long silenceLimitNs;
    private final ControlMessage.Participation introduction;
    private final ReplyListener answers;
    /** The messages to send; empty to have its thread look whether it is closed or the connection lost. */
    private final BlockingQueue<Optional<Message>> toSay = new LinkedBlockingQueue<>();

    private final Thread thread;
    private volatile boolean closed;

    /**
     * @param connector asked on the link's own thread for each connection, as a name may have to be looked up
     * @param target its name, for messages
     * @param attempt stands in every frame
     * @param introduction who speaks, said first on every connection
     * @param answers told what the target says, on another thread
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

    /** Says it as soon as it can; dropped if much waits already. */
    public void send(Message message) {
        if (toSay.size() < WAITING_MESSAGES) {
            toSay.add(Optional.of(message));
        } else {
            LOG.debug("{} for {} is dropped: it will be said again", message, target);
        }
    }

    private void run() {
        try {
            while (!closed) {
                Optional<Message> message = toSay.take();
                if (message.isPresent()) {
                    talk(message.get());
                }
            }
            // Messages that were handed over before the close are still sent: the last one may end a migration.
            Message last = nextLeft();
            if (last != null) {
                talk(last);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Gives what is left to be said, or null. */
    private Message nextLeft() {
        Optional<Message> left = Optional.empty();
        while (left != null && left.isEmpty()) {
            left = toSay.poll();
        }
        return left == null ? null : left.get();
    }

    /** One connection, from the message that it is made for until it is lost. */
    private void talk(Message first) throws InterruptedException {
        try (ControlLink link = new ControlLink(connector.get().control().channel(), attempt, silenceLimitNs)) {
            Talk talk = new Talk();
            SessionAgent agent = new SessionAgent("ppmr-courier-link", link, ControlMessage::read, talk);
            agent.start();
            try {
                link.send(introduction);
                Message message = first;
                while ((message != null || !closed) && !talk.lost) {
                    if (message != null) {
                        link.send(message);
                    }
                    message = closed ? nextLeft() : toSay.take().orElse(null);
                }
            } finally {
                agent.stop();
            }
        } catch (IOException e) {
            LOG.warn("{} has not reached {}: {}", first.getClass().getSimpleName(), target, e.getMessage());
        }
    }

    @Override
    public void close() {
        closed = true;
        look();
        try {
            thread.join(JOIN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void look() {
        toSay.add(Optional.empty());
    }

    /** One connection, as long as it is not lost; its thread is the agent's. */
    private final class Talk implements SessionAgent.End {
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
            look();
        }
    }
}
