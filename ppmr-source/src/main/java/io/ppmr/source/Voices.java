package io.ppmr.source;

import io.ppmr.logging.LogContext;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.source.session.SessionEvent;
import io.ppmr.transport.tcp.Connector;
import io.ppmr.transport.tcp.Courier;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How a migration talks to its participants: over an attempt's sessions as long as they live, by a courier to one whose
 * session is lost, or that was never connected by this service. Owned by the migration's thread.
 */
final class Voices implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Voices.class);

    private final SourceSettings settings;
    private final Consumer<Attempt.Heard> heard;
    private final Map<String, Courier> couriers = new HashMap<>();
    private final Map<String, SourceSession> sessions = new HashMap<>();
    private int attempt;

    /** @param heard told what couriers hear, on their threads */
    Voices(SourceSettings settings, Consumer<Attempt.Heard> heard) {
        this.settings = settings;
        this.heard = heard;
    }

    /** From now on it is about this attempt. */
    void attempt(int number) {
        close();
        attempt = number;
        sessions.clear();
    }

    /** A participant is connected. */
    void connected(SourceSession session) {
        sessions.put(session.leg().address(), session);
    }

    /** A participant's session is gone. */
    void lost(String participant) {
        sessions.remove(participant);
    }

    /** Says it, now or when the participant is reached; may be lost. */
    void say(String participant, ControlMessage message) {
        SourceSession session = sessions.get(participant);
        if (session != null) {
            try {
                session.send(message);
                return;
            } catch (IOException e) {
                LOG.debug("{} is not reached by its session: {}", participant, e.toString());
                lost(participant);
            }
        }
        couriers.computeIfAbsent(participant, this::courier).say(message);
    }

    private Courier courier(String participant) {
        int number = attempt;
        // The courier's threads have it from here.
        try (LogContext.Scope about = LogContext.peer(participant)) {
            return new Courier(
                    new Connector(address(participant), settings.authenticator(), settings.connectDeadline()),
                    participant,
                    number,
                    settings.silenceLimit(),
                    List.of(),
                    message -> heard.accept(new Attempt.Heard(number, participant, new SessionEvent.Said(message))));
        }
    }

    /** The address that a participant's name is. */
    static InetSocketAddress address(String participant) {
        int colon = participant.lastIndexOf(':');
        return new InetSocketAddress(
                participant.substring(0, colon), Integer.parseInt(participant.substring(colon + 1)));
    }

    @Override
    public void close() {
        couriers.values().forEach(Courier::close);
        couriers.clear();
    }
}
