package io.ppmr.target.session;

import io.ppmr.logging.LogContext;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.ControlMessageCodec;
import io.ppmr.protocol.FrameType;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.FrameHandler;
import io.ppmr.transport.LinkIdle;
import io.ppmr.transport.Rounds;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.Agent;
import org.agrona.concurrent.AgentRunner;
import org.agrona.concurrent.AgentTerminationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The duty cycle of one session at the target: frames in, the {@link Transfer}'s work, frames out. Runs on a thread of
 * its own while there is a session; an idle service has none.
 */
public final class SessionAgent implements Agent {
    private static final Logger LOG = LoggerFactory.getLogger(SessionAgent.class);
    private static final long PROGRESS_NS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long BUSY_SLEEP_MS = 10;
    private static final long QUIET_SLEEP_MS = 500;

    private static final long DRAIN_MS = 1_000;

    private final ControlLink link;
    private final Consumer<SessionEvent> events;
    private final FrameHandler handler = this::onFrame;
    private final Rounds rounds = new Rounds();
    private final AgentRunner runner;
    private final AtomicBoolean stopped = new AtomicBoolean();
    private volatile Transfer transfer;
    private volatile String lost;
    private volatile boolean over;
    private long lastProgressNs;

    public SessionAgent(ControlLink link, Consumer<SessionEvent> events) {
        this.link = link;
        this.events = events;
        LinkIdle idle = new LinkIdle(
                link,
                () -> transfer != null && transfer.hasWork(),
                () -> transfer == null ? QUIET_SLEEP_MS : BUSY_SLEEP_MS);
        runner = new AgentRunner(idle, this::onError, null, this);
    }

    /** Starts the agent's thread. */
    public void start() {
        AgentRunner.startOnThread(runner, task -> LogContext.thread(task, roleName()));
    }

    /** From now on frames about bytes go to this transfer; called before the source may send any. */
    public void begin(Transfer begun) {
        transfer = begun;
        // An agent whose connection was lost before this has ended, and will not tell the transfer.
        String reason = lost;
        if (reason != null && !over) {
            begun.failOnAgent(lostConnection(reason));
        }
    }

    /** All is said: when the source closes the connection now, nothing is lost. */
    public void conversationOver() {
        over = true;
    }

    /** Ends the agent's thread and closes the link; may be called twice. */
    public void stop() {
        if (stopped.getAndSet(true)) {
            return;
        }
        link.wake();
        runner.close();
        link.close();
    }

    /** The last words, such as that all is committed, go out before the link is closed. */
    @Override
    public void onClose() {
        try {
            link.drain(DRAIN_MS);
        } catch (IOException e) {
            LOG.debug("the last frames cannot be sent: {}", e.toString());
        } finally {
            link.dead();
        }
    }

    /** Whether it has ended, or goes round within the limit. Any thread but its own; blocks that. */
    public boolean goesRound(long limitNs) {
        return rounds.goesOn(limitNs, runner::isClosed);
    }

    @Override
    public String roleName() {
        return "ppmr-target-session";
    }

    @Override
    public int doWork() {
        rounds.increment();
        try {
            int work = link.doWork(handler);
            Transfer current = transfer;
            if (current != null) {
                long nowNs = System.nanoTime();
                work += current.doWork(nowNs);
                if (nowNs - lastProgressNs > PROGRESS_NS) {
                    lastProgressNs = nowNs;
                    link.sendFromAgent(current.progress());
                }
            }
            return work + link.transmit();
        } catch (IOException e) {
            lose(String.valueOf(e.getMessage()));
            throw new AgentTerminationException(e);
        }
    }

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        if (type == FrameType.MESSAGE) {
            onMessage(ControlMessageCodec.decode(buffer, offset));
        } else if (transfer == null) {
            throw new IOException("frame " + type + " of " + lengthBytes + " bytes before the migration was accepted");
        } else {
            transfer.onFrame(type, buffer, offset);
        }
    }

    private void onMessage(ControlMessage message) throws IOException {
        boolean aboutNames = message instanceof ControlMessage.Created
                || message instanceof ControlMessage.Renamed
                || message instanceof ControlMessage.Removed
                || message instanceof ControlMessage.Changed;
        if (!aboutNames) {
            events.accept(new SessionEvent.Said(message));
        } else if (transfer == null) {
            throw new IOException(message + " before the migration was accepted");
        } else {
            transfer.onMessage(message);
        }
    }

    private void lose(String reason) {
        link.dead();
        lost = reason;
        Transfer current = transfer;
        if (current != null && !over) {
            current.failOnAgent(lostConnection(reason));
        }
        events.accept(new SessionEvent.LinkLost(reason));
    }

    private static String lostConnection(String reason) {
        return "connection to the source was lost: " + reason;
    }

    private void onError(Throwable error) {
        if (!(error instanceof AgentTerminationException)) {
            LOG.error("the session's agent fails", error);
            lose(String.valueOf(error));
            throw new AgentTerminationException(error);
        }
    }
}
