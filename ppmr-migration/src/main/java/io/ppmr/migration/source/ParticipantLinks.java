package io.ppmr.migration.source;

import io.ppmr.migration.ReconnectingLink;
import io.ppmr.os.HostPort;
import io.ppmr.os.LogContext;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.transport.SessionEvent;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The ways by which a migration speaks to its participants: the sessions of its attempt as long as they live, then
 * links of their own. Owned by the migration's thread; nothing here waits.
 */
final class ParticipantLinks {
    private static final Logger LOG = LoggerFactory.getLogger(ParticipantLinks.class);

    private final SourceContext service;
    private final String migrationId;
    private final MigrationSecret secret;
    private final Attempt.AttemptListener heard;
    /** Those of the attempt's sessions that are not lost. */
    private final Map<String, SourceSession> sessions = new HashMap<>();
    /** To participants with which there is no session. */
    private final Map<String, ReconnectingLink> links = new HashMap<>();

    /** Messages that wait for room in a session. */
    private final Map<String, Future<Boolean>> late = new HashMap<>();

    /** @param heard told what participants say, on other threads */
    ParticipantLinks(SourceContext service, String migrationId, MigrationSecret secret, Attempt.AttemptListener heard) {
        this.service = service;
        this.migrationId = migrationId;
        this.secret = secret;
        this.heard = heard;
    }

    /** Begins an attempt with these sessions. */
    void connected(Map<String, SourceSession> begun) {
        sessions.putAll(begun);
    }

    /** Notes that the session with a participant is lost. */
    void lost(String participant) {
        sessions.remove(participant);
    }

    /**
     * Says it if the participant can be reached now; else drops it, as it is said again.
     *
     * @throws IllegalArgumentException if it cannot be sent by a defect of this service
     */
    void send(String participant, int attempt, ControlMessage message) {
        SourceSession session = sessions.get(participant);
        if (session != null) {
            try {
                if (!session.offer(message)) {
                    sayLater(participant, session, message);
                }
                return;
            } catch (IOException e) {
                LOG.debug("{} is not reached by its session: {}", participant, e.toString());
                sessions.remove(participant);
            }
        }
        links.computeIfAbsent(participant, to -> link(to, attempt)).send(message);
    }

    /** The target takes nothing just now, or the message is long: another thread waits for room, one at a time. */
    private void sayLater(String participant, SourceSession session, ControlMessage message) {
        Future<Boolean> last = late.get(participant);
        if (last != null && !last.isDone()) {
            LOG.debug("{} for {} is dropped: it will be said again", message, participant);
            return;
        }
        late.put(
                participant,
                SideTask.start(
                        "ppmr-late-message",
                        () -> sendWaiting(participant, session, message),
                        () -> LOG.trace("{} is said to {}, or the session is lost", message, participant)));
    }

    /** It is said again where it is not answered, then on a link of its own: a lost session is told of by its agent. */
    private boolean sendWaiting(String participant, SourceSession session, ControlMessage message) {
        try {
            session.send(message);
            return true;
        } catch (IOException e) {
            LOG.debug("{} is not reached by its session: {}", participant, e.toString());
        } catch (RuntimeException e) {
            LOG.error("a defect of this service; please report it: {} cannot be said", message, e);
        }
        return false;
    }

    private ReconnectingLink link(String participant, int attempt) {
        // The link's threads have it from here.
        try (LogContext.Scope peer = LogContext.peer(participant)) {
            return new ReconnectingLink(
                    () -> service.connector(HostPort.ofParticipant(participant).lookUp()),
                    participant,
                    attempt,
                    service.settings().node().silenceLimit(),
                    new ControlMessage.Participation(migrationId, "", secret),
                    (message, lengthBytes) -> heard.onEvent(new Attempt.InboxEvent(
                            attempt, participant, new SessionEvent.MessageReceived(message, lengthBytes))));
        }
    }

    /** Forgets all of them, and returns those that are still to be closed, for which one has to wait. */
    List<ReconnectingLink> forget() {
        List<ReconnectingLink> old = List.copyOf(links.values());
        links.clear();
        sessions.clear();
        return old;
    }
}
