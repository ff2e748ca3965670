package io.ppmr.source;

import io.ppmr.bufferpool.FairClaims;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.source.session.SessionAgent;
import io.ppmr.source.session.SessionEvent;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Talks to a target whose session is over: connects when there is something to say, and again when that connection is
 * lost. What cannot be said is dropped; who needs an answer says it again. Its thread runs while there is a migration
 * that needs it.
 */
final class Courier implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Courier.class);
    private static final int WAITING_MESSAGES = 4;
    private static final long LOOK_MS = 500;
    private static final long JOIN_MS = 10_000;

    private final InetSocketAddress target;
    private final Connector connector;
    private final SourceSettings settings;
    private final FairClaims claims;
    private final int attempt;
    private final Consumer<ControlMessage> answers;
    private final BlockingQueue<ControlMessage> toSay = new ArrayBlockingQueue<>(WAITING_MESSAGES);
    private final Thread thread;
    private volatile boolean closed;
    private volatile boolean lost;

    /** @param answers told what the target says, on another thread */
    Courier(
            InetSocketAddress target,
            SourceSettings settings,
            FairClaims claims,
            int attempt,
            Consumer<ControlMessage> answers) {
        this.target = target;
        this.connector = new Connector(target, settings.authenticator(), settings.connectDeadline());
        this.settings = settings;
        this.claims = claims;
        this.attempt = attempt;
        this.answers = answers;
        thread = new Thread(this::run, "ppmr-courier-" + target.getHostString());
        thread.setDaemon(true);
        thread.start();
    }

    /** Says it as soon as it can; dropped if too much waits already. */
    void say(ControlMessage message) {
        if (!toSay.offer(message)) {
            LOG.debug("{} for {} is dropped: it will be said again", message, target);
        }
    }

    private void run() {
        try {
            while (!closed) {
                ControlMessage message = toSay.poll(LOOK_MS, TimeUnit.MILLISECONDS);
                if (message != null) {
                    talk(message);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** One connection, from the message that it is made for until it is lost. */
    private void talk(ControlMessage first) throws InterruptedException {
        lost = false;
        try (ControlLink link = new ControlLink(
                connector.control().channel(), attempt, settings.silenceLimit().toNanos())) {
            SessionAgent agent = new SessionAgent(link, claims, this::hear);
            agent.start();
            try {
                for (ControlMessage message = first; !closed && !lost; message = toSay.poll(LOOK_MS, TimeUnit.MILLISECONDS)) {
                    if (message != null) {
                        link.send(message);
                    }
                }
            } finally {
                agent.stop();
            }
        } catch (IOException e) {
            LOG.warn("{} has not reached target {}: {}", first.getClass().getSimpleName(), target, e.getMessage());
        }
    }

    private void hear(SessionEvent event) {
        if (event instanceof SessionEvent.Said said) {
            answers.accept(said.message());
        } else {
            lost = true;
        }
    }

    @Override
    public void close() {
        closed = true;
        try {
            thread.join(JOIN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
