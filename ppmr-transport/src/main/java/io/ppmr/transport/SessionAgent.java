package io.ppmr.transport;

import io.ppmr.linux.LogContext;
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
 * The duty cycle of one session, at either end: receives frames, runs the end's own work, sends frames. It owns the
 * control link and has a thread while there is a session. An idle service has none.
 */
public final class SessionAgent implements Agent {
    private static final Logger LOG = LoggerFactory.getLogger(SessionAgent.class);
    private static final long DRAIN_MS = 1_000;

    /** One end of the data plane, for which an agent works. All calls come from the agent's thread. */
    public interface End {
        /** Handles a frequent frame. The buffer is valid during the call. */
        void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException;

        /** Handles a message of this length on the wire; throws if the peer sends faster than messages are handled. */
        void onMessage(Message message, int lengthBytes) throws IOException;

        /** Does the end's other work, and returns its amount. */
        int doWork(long nowNs) throws IOException;

        /** Returns true if the end received other work while the agent prepared to sleep. */
        boolean hasWork();

        /** Returns the maximum sleep of the agent. */
        long sleepMs();

        /** The connection was lost, or the end itself failed: no further call follows. */
        void onLost(String reason);
    }

    private final String name;
    private final ControlLink link;
    private final Message.Reader messages;
    private final MessageParts parts;
    private final End end;
    private final FrameHandler handler = this::onFrame;
    private final DutyCycle cycle = new DutyCycle();
    private final AgentRunner runner;
    private final AtomicBoolean stopped = new AtomicBoolean();
    /** The received bytes of an incomplete message. */
    private int receivedBytes;

    /**
     * @param name the name of its thread
     * @param link the link, which it owns from {@link #start} on
     * @param messages reads the messages of both planes
     */
    public SessionAgent(String name, ControlLink link, Message.Reader messages, End end) {
        this(name, link, messages, MessageParts.ReassemblyBudget.forOneConnection(), end);
    }

    /** @param budget the memory for incomplete messages of several frames, which other sessions may share */
    public SessionAgent(
            String name, ControlLink link, Message.Reader messages, MessageParts.ReassemblyBudget budget, End end) {
        this.name = name;
        this.parts = new MessageParts(budget);
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

    /**
     * Returns true if the agent ended, or completes a cycle within the limit. Blocks. Any thread except the agent's
     * own.
     */
    public boolean responds(long limitNs) {
        return cycle.awaitNextCycle(limitNs, runner::isClosed);
    }

    @Override
    public String roleName() {
        return name;
    }

    @Override
    public int doWork() {
        cycle.increment();
        try {
            int work = link.doWork(handler);
            work += end.doWork(System.nanoTime());
            return work + link.transmit();
        } catch (IOException e) {
            fail(String.valueOf(e.getMessage()));
            throw new AgentTerminationException(e);
        }
    }

    /** The last frames, such as the commit's acknowledgement, are sent before the link is closed. */
    @Override
    public void onClose() {
        try {
            link.drain(DRAIN_MS);
        } catch (IOException e) {
            LOG.debug("the last frames cannot be sent: {}", e.toString());
        } finally {
            link.markClosed();
            parts.discard();
        }
    }

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        if (type == FrameType.MESSAGE) {
            end.onMessage(messages.read(buffer, offset), lengthBytes);
        } else if (MessageParts.isPart(type)) {
            receivedBytes += lengthBytes;
            Message message = parts.add(type, buffer, offset, messages);
            if (message != null) {
                int messageBytes = receivedBytes;
                receivedBytes = 0;
                end.onMessage(message, messageBytes);
            }
        } else {
            end.onFrame(type, buffer, offset, lengthBytes);
        }
    }

    private void fail(String reason) {
        link.markClosed();
        end.onLost(reason);
    }

    private void onError(Throwable error) {
        if (!(error instanceof AgentTerminationException)) {
            LOG.error("the session's agent failed", error);
            fail(String.valueOf(error));
            throw new AgentTerminationException(error);
        }
    }
}
