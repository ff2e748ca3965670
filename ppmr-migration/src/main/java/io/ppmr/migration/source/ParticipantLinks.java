package io.ppmr.migration.source;

import io.ppmr.linux.HostPort;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.ReconnectingLink;
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
 * The connections of a migration to its participants: the sessions of its attempt while they live, then links of their
 * own. Owned by the migration's thread. No method blocks.
 */
final class ParticipantLinks {
    private static final Logger LOG = LoggerFactory.getLogger(ParticipantLinks.class);

    private final SourceContext service;
    private final String migrationId;
    private final MigrationSecret secret;
    private final Attempt.AttemptListener listener;
    /** The attempt's sessions that are not lost. */
    private final Map<String, SourceSession> sessions = new HashMap<>();
    /** Links to participants without a session. */
    private final Map<String, ReconnectingLink> links = new HashMap<>();

    /** Messages that wait for room in a session. */
    private final Map<String, Future<Boolean>> late = new HashMap<>();

    /** @param listener listener for participants' messages, on other threads */
    ParticipantLinks(
            SourceContext service, String migrationId, MigrationSecret secret, Attempt.AttemptListener listener) {
        this.service = service;
        this.migrationId = migrationId;
        this.secret = secret;
        this.listener = listener;
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
     * Sends the message if the participant is reachable now. Otherwise it is dropped, because it is repeated later.
     *
     * @throws IllegalArgumentException if it cannot be sent by a defect of this service
     */
    void send(String participant, int attempt, ControlMessage message) {
        SourceSession session = sessions.get(participant);
        if (session != null) {
            try {
                if (!session.offer(message)) {
                    sendLater(participant, session, message);
                }
                return;
            } catch (IOException e) {
                LOG.debug("{} is unreachable by its session: {}", participant, e.toString());
                sessions.remove(participant);
            }
        }
        links.computeIfAbsent(participant, to -> link(to, attempt)).send(message);
    }

    /**
     * Sends a message later, because the target's queue is full or the message is long. Another thread waits for room,
     * for one message at a time.
     */
    private void sendLater(String participant, SourceSession session, ControlMessage message) {
        Future<Boolean> last = late.get(participant);
        if (last != null && !last.isDone()) {
            LOG.debug("{} for {} dropped; its sender repeats it", message, participant);
            return;
        }
        late.put(
                participant,
                SideTask.start(
                        "ppmr-late-message",
                        () -> sendWaiting(participant, session, message),
                        () -> LOG.trace("{} was sent to {}, or the session is lost", message, participant)));
    }

    /**
     * Sends a waiting message. Unanswered messages are repeated, then on a link of their own. The session's agent
     * reports a lost session.
     */
    private boolean sendWaiting(String participant, SourceSession session, ControlMessage message) {
        try {
            session.send(message);
            return true;
        } catch (IOException e) {
            LOG.debug("{} is unreachable by its session: {}", participant, e.toString());
        } catch (RuntimeException e) {
            LOG.error("a defect of this service; please report it: {} cannot be sent", message, e);
        }
        return false;
    }

    private ReconnectingLink link(String participant, int attempt) {
        // The link's threads inherit this context.
        try (LogContext.Scope peer = LogContext.peer(participant)) {
            return new ReconnectingLink(
                    () -> service.connector(HostPort.ofParticipant(participant).lookUp()),
                    participant,
                    attempt,
                    service.settings().node().silenceLimit(),
                    new ControlMessage.Participation(migrationId, "", secret),
                    (message, lengthBytes) -> listener.onEvent(new Attempt.InboxEvent(
                            attempt, participant, new SessionEvent.MessageReceived(message, lengthBytes))));
        }
    }

    /** Removes all links, and returns those that must still be closed, which blocks. */
    List<ReconnectingLink> removeAll() {
        List<ReconnectingLink> old = List.copyOf(links.values());
        links.clear();
        sessions.clear();
        return old;
    }
}
