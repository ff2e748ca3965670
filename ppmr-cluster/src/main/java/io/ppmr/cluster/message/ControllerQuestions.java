package io.ppmr.cluster.message;

import io.ppmr.linux.HostPort;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.data.Message;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Sends questions to the controllers of a cluster. It begins with the one that answered last. A controller that is not
 * active names the active one, which is asked next. Safe for any thread.
 */
public final class ControllerQuestions {
    private static final Duration LEAST_TIME = Duration.ofMillis(500);

    private final List<InetSocketAddress> controllers;
    private final PeerAuthenticator key;
    private final SocketAddress from;
    private volatile InetSocketAddress answeredLast;

    /** @param controllers their addresses for questions */
    public ControllerQuestions(List<InetSocketAddress> controllers, PeerAuthenticator key) {
        this(controllers, key, null);
    }

    /** @param from this node's address for the connections; null to let the kernel choose */
    public ControllerQuestions(List<InetSocketAddress> controllers, PeerAuthenticator key, SocketAddress from) {
        this.controllers = List.copyOf(controllers);
        this.key = key;
        this.from = from;
    }

    /** Requests what a service needs to join. The answer is from a controller that has the key. */
    public ClusterMessage.JoinAnswer join(String host, String role, Duration limit)
            throws IOException, RequestException {
        ClusterMessage.Join question = ClusterMessage.Join.of(host, role);
        ClusterMessage.JoinAnswer answer = ask(question, ClusterMessage.JoinAnswer.class, limit);
        if (!answer.isProvedBy(key, question)) {
            throw new IOException("the answer of a controller was changed on its way. Remedy: look for a host between"
                    + " this node and the controllers that changes bytes");
        }
        return answer;
    }

    /**
     * Sends a question to controllers until one answers it.
     *
     * @param limit the time for all of them
     * @throws NoControllerException if none answers
     * @throws RequestException if the question is refused
     */
    public <T extends ClusterMessage> T ask(ClusterMessage question, Class<T> answer, Duration limit)
            throws NoControllerException, RequestException {
        long endNs = System.nanoTime() + limit.toNanos();
        Deque<InetSocketAddress> next = new ArrayDeque<>(controllers);
        Optional.ofNullable(answeredLast).ifPresent(next::addFirst);
        Set<String> tried = new HashSet<>();
        List<String> failures = new ArrayList<>();
        while (!next.isEmpty()) {
            InetSocketAddress controller = next.poll();
            String name = HostPort.participant(controller);
            if (!tried.add(name)) {
                continue;
            }
            long leftNs = endNs - System.nanoTime();
            if (leftNs <= 0) {
                failures.add(name + ": the time is over");
                continue;
            }
            Duration share =
                    Duration.ofNanos(Math.min(leftNs, Math.max(LEAST_TIME.toNanos(), leftNs / (next.size() + 1))));
            try {
                Message received = new Connector(controller, key, share, from)
                        .request(() -> question, ClusterMessage::read, share);
                if (received instanceof ClusterMessage.NotActive other) {
                    failures.add(
                            name + ": it is not active" + (other.active().isEmpty() ? ", and no controller is" : ""));
                    HostPort.parse(other.active()).map(HostPort::lookUp).ifPresent(next::addFirst);
                } else if (received instanceof ClusterMessage.QuestionRefused refused) {
                    throw new RequestException(refused.reason());
                } else {
                    answeredLast = controller;
                    return answer.cast(received);
                }
            } catch (IOException | ClassCastException e) {
                failures.add(name + ": " + e.getMessage());
            }
        }
        throw new NoControllerException("no controller answers; tried were " + String.join("; ", failures)
                + ". Remedy: start a controller (systemctl start ppmr-controller), or correct cluster.controllers");
    }
}
