package io.ppmr.cli.doctor;

import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.ControlMessage.Introduce;
import io.ppmr.protocol.ControlMessage.Introduced;
import io.ppmr.protocol.ControlMessageCodec;
import io.ppmr.protocol.FrameType;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;

/** Asks a target what it would say to a job, over a control connection of its own, and touches nothing. */
final class PeerQuestion {
    private static final Duration CONNECT_LIMIT = Duration.ofSeconds(5);
    /** Its checkpointers are probed meanwhile. */
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(60);

    private static final long POLL_MS = 100;

    private PeerQuestion() {}

    static Introduced ask(InetSocketAddress target, PeerAuthenticator key, Introduce introduction) throws IOException {
        Connector.Control control = new Connector(target, key, CONNECT_LIMIT).control();
        ControlMessage[] answer = new ControlMessage[1];
        try (ControlLink link = new ControlLink(control.channel(), 1, ANSWER_LIMIT.toNanos())) {
            // Its clock now, when everything is connected: the target compares it with its own.
            link.send(new Introduce(introduction.node().at(System.currentTimeMillis()), introduction.job()));
            long deadlineNs = System.nanoTime() + ANSWER_LIMIT.toNanos();
            while (answer[0] == null && System.nanoTime() - deadlineNs < 0) {
                link.doWork((type, buffer, offset, lengthBytes) -> {
                    if (type == FrameType.MESSAGE) {
                        answer[0] = ControlMessageCodec.decode(buffer, offset);
                    }
                });
                if (link.transmit() == 0 && answer[0] == null) {
                    link.prepareToSleep();
                    link.idle(POLL_MS);
                }
            }
        }
        if (answer[0] instanceof Introduced introduced) {
            return introduced;
        }
        throw new IOException("target " + target
                + (answer[0] == null ? " does not answer" : " answers with " + answer[0])
                + ": install the same release of ppmr on both nodes");
    }
}
