package io.ppmr.source.session;

import io.ppmr.bufferpool.FairClaims;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.SessionListener;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;

/**
 * The source's end of a session: handles credits and releases, and flushes files whose writers pause. Owned by the
 * session's agent. It takes no lock that a waiting thread holds.
 */
public final class SourceEnd implements SessionAgent.End {
    private static final long CHECK_NS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long CHUNK_AGE_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long STARVING_CHECK_NS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long STARVING_AGE_NS = TimeUnit.MILLISECONDS.toNanos(2);
    private static final long QUIET_SLEEP_MS = 500;

    private final FairClaims claims;
    private final SessionListener events;
    private final CreditFrame credit = new CreditFrame();
    private final ReleaseFrame release = new ReleaseFrame();
    private final ValueFrame value = new ValueFrame();
    private volatile LinkOutlet outlet;
    private volatile OutgoingFiles files;
    private volatile String lost;
    private long lastCheckNs;

    public SourceEnd(FairClaims claims, SessionListener events) {
        this.claims = claims;
        this.events = events;
    }

    /** Starts to serve these files; called before the first write. */
    public void begin(LinkOutlet begunOutlet, OutgoingFiles begunFiles) {
        outlet = begunOutlet;
        files = begunFiles;
        if (lost != null) {
            begunOutlet.fail(lost);
        }
    }

    @Override
    public int doWork(long nowNs) throws IOException {
        OutgoingFiles current = files;
        boolean starving = claims.waiting() > 0;
        if (current == null || nowNs - lastCheckNs < (starving ? STARVING_CHECK_NS : CHECK_NS)) {
            return 0;
        }
        lastCheckNs = nowNs;
        for (OutgoingFile file : current.snapshot()) {
            file.flushIfOlder(nowNs, starving ? STARVING_AGE_NS : CHUNK_AGE_NS, CHUNK_AGE_NS);
        }
        return 0;
    }

    @Override
    public boolean hasWork() {
        return false;
    }

    @Override
    public long sleepMs() {
        if (files == null) {
            return QUIET_SLEEP_MS;
        }
        return TimeUnit.NANOSECONDS.toMillis(claims.waiting() > 0 ? STARVING_CHECK_NS : CHECK_NS);
    }

    @Override
    public void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        switch (type) {
            case CREDIT -> {
                OutgoingFile file = file(credit.wrap(buffer, offset).file());
                if (!file.granted(credit.window(), credit.slot())) {
                    throw new ProtocolException(
                            "the target grants file " + file.name() + " more credits than were requested");
                }
            }
            case CREDIT_DENIAL -> file(credit.wrap(buffer, offset).file()).denied(credit.window());
            case RELEASE -> outlet.onRelease(release.wrap(buffer, offset).sourceChunk());
            case SYNCED -> outlet.synced(value.wrap(buffer, offset).value());
            default ->
                throw new ProtocolException("frame " + type + " of " + lengthBytes + " bytes is not for a source");
        }
    }

    @Override
    public void onMessage(Message message, int lengthBytes) throws IOException {
        LinkOutlet current = outlet;
        if (message instanceof DataMessage.RailEnded ended && current != null) {
            current.onRailEnded(ended);
            return;
        }
        events.onEvent(new SessionEvent.MessageReceived(message, lengthBytes));
    }

    /**
     * The session's connection, or one of its transport, was lost. No further reply can arrive, so every wait for
     * the target ends. The reason is set before the wake-up, so that every woken thread finds it. Any thread.
     */
    @Override
    public void onLost(String reason) {
        try {
            events.onEvent(new SessionEvent.LinkLost(reason));
        } catch (ProtocolException e) {
            throw new IllegalStateException("the loss of a connection is not a message and is always accepted", e);
        }
        lost = reason;
        LinkOutlet current = outlet;
        if (current != null) {
            current.fail(reason);
        }
    }

    private OutgoingFile file(int id) throws ProtocolException {
        OutgoingFiles current = files;
        OutgoingFile file = current == null ? null : current.find(id);
        if (file == null) {
            throw new ProtocolException("the target names file " + id + ", which this source never created");
        }
        return file;
    }
}
