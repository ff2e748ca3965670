package io.ppmr.transport;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageParts;
import io.ppmr.protocol.data.ValueFrame;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;

/** Runs an agent for a link on its own thread, and keeps the received frames. */
final class LinkRunner {
    /** A received frame; {@code message} is null if it is not a message, {@code value} 0 if it contains no number. */
    record Taken(FrameType type, int file, long value, Message message) {}

    private final ControlLink link;
    private final MessageParts parts = new MessageParts(MessageParts.ReassemblyBudget.forOneConnection());
    private final List<Taken> taken = new ArrayList<>();
    private final Thread thread;
    private volatile IOException failure;
    private volatile boolean closed;

    LinkRunner(ControlLink link) {
        this.link = link;
        thread = new Thread(this::run, "link-runner");
        thread.setDaemon(true);
        thread.start();
    }

    ControlLink link() {
        return link;
    }

    List<Taken> taken() {
        synchronized (taken) {
            return List.copyOf(taken);
        }
    }

    Exception failure() {
        return failure;
    }

    Exception awaitFailure() throws Exception {
        Loopback.until("the link fails", () -> failure != null);
        return failure;
    }

    /** Processor time of the agent's thread. */
    long cpuNs() {
        return ManagementFactory.getThreadMXBean().getThreadCpuTime(thread.getId());
    }

    /** Ends the agent and closes the link; may be called twice. */
    void stop() throws InterruptedException {
        closed = true;
        link.wake();
        thread.join(60_000);
        link.close();
    }

    private void run() {
        LinkIdle idle = new LinkIdle(link, () -> closed, () -> 100);
        try {
            while (!closed) {
                idle.idle(link.doWork(this::onFrame) + link.transmit());
            }
        } catch (IOException e) {
            failure = e;
        }
    }

    private void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        Message message = type == FrameType.MESSAGE ? ControlMessage.read(buffer, offset) : null;
        if (MessageParts.isPart(type)) {
            message = parts.add(type, buffer, offset, ControlMessage::read);
            if (message == null) {
                return;
            }
        }
        long value = lengthBytes == ValueFrame.LENGTH_BYTES && message == null
                ? new ValueFrame().wrap(buffer, offset).value()
                : 0;
        synchronized (taken) {
            taken.add(new Taken(type, Frame.file(buffer, offset), value, message));
        }
    }
}
