package io.ppmr.source.session;

import io.ppmr.bufferpool.FairClaims;
import io.ppmr.logging.LogContext;
import io.ppmr.protocol.ControlMessageCodec;
import io.ppmr.protocol.FrameType;
import io.ppmr.protocol.ProtocolException;
import io.ppmr.protocol.ReleaseFrame;
import io.ppmr.protocol.SlotFrame;
import io.ppmr.protocol.ValueFrame;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.OutgoingFiles;
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
 * The duty cycle of one session at the source: grants and releases in, advertisements out, and a look at files whose
 * writers pause. Runs on a thread of its own while there is a session; an idle service has none. It takes no lock that
 * a waiting thread holds.
 */
public final class SessionAgent implements Agent {
    private static final Logger LOG = LoggerFactory.getLogger(SessionAgent.class);
    private static final long PACE_NS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long CHUNK_AGE_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long STARVING_PACE_NS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long STARVING_AGE_NS = TimeUnit.MILLISECONDS.toNanos(2);

    private static final long DRAIN_MS = 1_000;

    private final ControlLink link;
    private final FairClaims claims;
    private final Consumer<SessionEvent> events;
    private final FrameHandler handler = this::onFrame;
    private final SlotFrame slot = new SlotFrame();
    private final ReleaseFrame release = new ReleaseFrame();
    private final ValueFrame value = new ValueFrame();
    private final Rounds rounds = new Rounds();
    private final AgentRunner runner;
    private final AtomicBoolean stopped = new AtomicBoolean();
    private volatile LinkOutlet outlet;
    private volatile OutgoingFiles files;
    private long lastLookNs;

    public SessionAgent(ControlLink link, FairClaims claims, Consumer<SessionEvent> events) {
        this.link = link;
        this.claims = claims;
        this.events = events;
        LinkIdle idle = new LinkIdle(link, () -> false, this::sleepMs);
        runner = new AgentRunner(idle, this::onError, null, this);
    }

    /** Starts the agent's thread. */
    public void start() {
        AgentRunner.startOnThread(runner, task -> LogContext.thread(task, roleName()));
    }

    /** From now on the agent serves these files; called before the first of them is written. */
    public void begin(LinkOutlet begunOutlet, OutgoingFiles begunFiles) {
        outlet = begunOutlet;
        files = begunFiles;
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
        return "ppmr-source-session";
    }

    @Override
    public int doWork() {
        rounds.increment();
        try {
            int work = link.doWork(handler);
            OutgoingFiles current = files;
            if (current != null) {
                look(current, System.nanoTime());
            }
            return work + link.transmit();
        } catch (IOException e) {
            link.dead();
            events.accept(new SessionEvent.Lost(String.valueOf(e.getMessage())));
            throw new AgentTerminationException(e);
        }
    }

    private long sleepMs() {
        if (files == null) {
            return 500;
        }
        return TimeUnit.NANOSECONDS.toMillis(claims.waiting() > 0 ? STARVING_PACE_NS : PACE_NS);
    }

    private void look(OutgoingFiles current, long nowNs) throws IOException {
        boolean starving = claims.waiting() > 0;
        if (nowNs - lastLookNs < (starving ? STARVING_PACE_NS : PACE_NS)) {
            return;
        }
        lastLookNs = nowNs;
        for (OutgoingFile file : current.snapshot()) {
            file.flushIfOlder(nowNs, starving ? STARVING_AGE_NS : CHUNK_AGE_NS, CHUNK_AGE_NS);
        }
    }

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        switch (type) {
            case GRANT -> {
                OutgoingFile file = file(slot.wrap(buffer, offset).file());
                if (!file.granted(slot.window(), slot.slot())) {
                    throw new ProtocolException("the target grants file " + file.name() + " more than was asked for");
                }
            }
            case DENY -> file(slot.wrap(buffer, offset).file()).denied(slot.window());
            case RELEASE -> {
                int chunk = release.wrap(buffer, offset).sourceChunk();
                outlet.released(chunk);
                claims.release(chunk);
            }
            case SYNCED -> outlet.synced(value.wrap(buffer, offset).value());
            case MESSAGE -> events.accept(new SessionEvent.Said(ControlMessageCodec.decode(buffer, offset)));
            default ->
                throw new ProtocolException("frame " + type + " of " + lengthBytes + " bytes is not for a source");
        }
    }

    private OutgoingFile file(int id) throws ProtocolException {
        OutgoingFiles current = files;
        OutgoingFile file = current == null ? null : current.find(id);
        if (file == null) {
            throw new ProtocolException("the target speaks of file " + id + ", which this source never created");
        }
        return file;
    }

    private void onError(Throwable error) {
        if (!(error instanceof AgentTerminationException)) {
            LOG.error("the session's agent fails", error);
            link.dead();
            events.accept(new SessionEvent.Lost(String.valueOf(error)));
            throw new AgentTerminationException(error);
        }
    }
}
