package io.ppmr.transport;

import io.ppmr.os.LogContext;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageParts;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.Agent;
import org.agrona.concurrent.AgentRunner;
import org.agrona.concurrent.AgentTerminationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The duty cycle of one session, at either end: frames in, the end's own work, frames out. It owns the control link and
 * runs on a thread of its own while there is a session; an idle service has none.
 */
public final class SessionAgent implements Agent {
    private static final Logger LOG = LoggerFactory.getLogger(SessionAgent.class);
    private static final long DRAIN_MS = 1_000;

    /** One end of the data plane, for which an agent works. All calls come from the agent's thread. */
    public interface End {
        /** Takes a hot frame; the buffer is valid during the call. */
        void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException;

        /** Handles a message of this length on the wire; throws if the peer sends faster than messages are handled. */
        void onMessage(Message message, int lengthBytes) throws IOException;

        /** Does what is to be done beside the frames, and gives how much that was. */
        int doWork(long nowNs) throws IOException;

        /** Returns true if something came to it beside the link while the agent was about to sleep. */
        boolean hasWork();

        /** Returns how long the agent may sleep at most. */
        long sleepMs();

        /** The connection was lost, or the end itself has failed: no further call comes. */
        void lost(String reason);
    }

    private final String name;
    private final ControlLink link;
    private final Message.Reader messages;
    private final MessageParts parts;
    private final End end;
    private final FrameHandler handler = this::onFrame;
    private final DutyCycle rounds = new DutyCycle();
    private final AgentRunner runner;
    private final AtomicBoolean stopped = new AtomicBoolean();
    /** Of the message that has come in part. */
    private int partsBytes;

    /**
     * @param name of its thread
     * @param link which it owns from {@link #start} on
     * @param messages reads the messages of both planes
     */
    public SessionAgent(String name, ControlLink link, Message.Reader messages, End end) {
        this(name, link, messages, MessageParts.ReassemblyBudget.ofOne(), end);
    }

    /** @param room for messages of several frames that have not come whole, which other sessions may share */
    public SessionAgent(
            String name, ControlLink link, Message.Reader messages, MessageParts.ReassemblyBudget room, End end) {
        this.name = name;
        this.parts = new MessageParts(room);
        this.link = link;
        this.messages = messages;
        this.end = end;
        runner = new AgentRunner(new LinkIdle(link, end::hasWork, end::sleepMs), this::onError, null, this);
    }

    /** Starts the agent's thread. */
    public void start() {
        AgentRunner.startOnThread(runner, task -> LogContext.thread(task, name));
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

    /** Returns true if it has ended, or goes round within the limit. Any thread but its own; blocks that. */
    public boolean responds(long limitNs) {
        return rounds.awaitNextCycle(limitNs, runner::isClosed);
    }

    @Override
    public String roleName() {
        return name;
    }

    @Override
    public int doWork() {
        rounds.increment();
        try {
            int work = link.doWork(handler);
            work += end.doWork(System.nanoTime());
            return work + link.transmit();
        } catch (IOException e) {
            lose(String.valueOf(e.getMessage()));
            throw new AgentTerminationException(e);
        }
    }

    /** The last frames, such as that all is committed, go out before the link is closed. */
    @Override
    public void onClose() {
        try {
            link.drain(DRAIN_MS);
        } catch (IOException e) {
            LOG.debug("the last frames cannot be sent: {}", e.toString());
        } finally {
            link.dead();
            parts.drop();
        }
    }

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        if (type == FrameType.MESSAGE) {
            end.onMessage(messages.read(buffer, offset), lengthBytes);
        } else if (MessageParts.isPart(type)) {
            partsBytes += lengthBytes;
            Message whole = parts.add(type, buffer, offset, messages);
            if (whole != null) {
                int wholeBytes = partsBytes;
                partsBytes = 0;
                end.onMessage(whole, wholeBytes);
            }
        } else {
            end.onFrame(type, buffer, offset, lengthBytes);
        }
    }

    private void lose(String reason) {
        link.dead();
        end.lost(reason);
    }

    private void onError(Throwable error) {
        if (!(error instanceof AgentTerminationException)) {
            LOG.error("the session's agent fails", error);
            lose(String.valueOf(error));
            throw new AgentTerminationException(error);
        }
    }
}
