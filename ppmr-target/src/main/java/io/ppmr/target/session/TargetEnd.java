package io.ppmr.target.session;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.SessionListener;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;

/**
 * The target's end of a session. Frames about bytes and names go to the {@link Transfer}, everything else to the thread
 * that runs the migration. Owned by the session's agent.
 */
public final class TargetEnd implements SessionAgent.End {
    private static final long PROGRESS_NS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long BUSY_SLEEP_MS = 10;
    private static final long QUIET_SLEEP_MS = 500;

    private final ControlLink link;
    private final SessionListener events;
    private volatile Transfer transfer;
    private volatile String lost;
    private volatile boolean hasEnded;
    private long lastProgressNs;

    public TargetEnd(ControlLink link, SessionListener events) {
        this.link = link;
        this.events = events;
    }

    /** Sets the transfer for frames about bytes; called before the source may send any. */
    public void begin(Transfer begun) {
        transfer = begun;
        // If the connection was lost before this, the agent ended and does not notify the transfer.
        String reason = lost;
        if (reason != null && !hasEnded) {
            begun.onSourceLost(lostConnection(reason));
        }
    }

    /** Marks the session as finished: a close of the connection by the source is no loss after this. */
    public void markEnded() {
        hasEnded = true;
        link.allowResumption(false);
    }

    @Override
    public int doWork(long nowNs) throws IOException {
        Transfer current = transfer;
        if (current == null) {
            return 0;
        }
        int work = current.doWork(nowNs);
        if (nowNs - lastProgressNs > PROGRESS_NS && link.isClear()) {
            lastProgressNs = nowNs;
            link.sendFromAgent(current.progress());
        }
        return work;
    }

    @Override
    public boolean hasWork() {
        return transfer != null && transfer.hasWork();
    }

    @Override
    public long sleepMs() {
        return transfer == null ? QUIET_SLEEP_MS : BUSY_SLEEP_MS;
    }

    @Override
    public void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        requireTransfer("frame " + type).onFrame(type, buffer, offset);
    }

    @Override
    public void onMessage(Message message, int lengthBytes) throws IOException {
        if (message instanceof NameChange change) {
            requireTransfer(message.toString()).onNameChange(change);
        } else if (message instanceof DataMessage.EndRail end) {
            requireTransfer(message.toString()).onEndRail(end);
        } else {
            events.onEvent(new SessionEvent.MessageReceived(message, lengthBytes));
        }
    }

    private Transfer requireTransfer(String what) throws IOException {
        Transfer current = transfer;
        if (current == null) {
            throw new IOException(what + " before the migration was accepted");
        }
        return current;
    }

    @Override
    public void onLost(String reason) {
        lost = reason;
        Transfer current = transfer;
        if (current != null && !hasEnded) {
            current.onSourceLost(lostConnection(reason));
        }
        try {
            events.onEvent(new SessionEvent.LinkLost(reason));
        } catch (ProtocolException e) {
            throw new IllegalStateException("the loss of a connection is not a message and is always accepted", e);
        }
    }

    private static String lostConnection(String reason) {
        return "connection to the source was lost: " + reason;
    }
}
