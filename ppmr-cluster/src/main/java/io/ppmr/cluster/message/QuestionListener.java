package io.ppmr.cluster.message;

import io.ppmr.linux.RareLog;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.listen.PeerListener;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers questions of authenticated peers at one address. Each connection has a thread while it is open, and is closed
 * when no question arrives for some seconds. Limits of unauthenticated connections: {@link PeerListener}. Closed by its
 * owner.
 */
public final class QuestionListener implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(QuestionListener.class);
    private static final Duration SILENCE_LIMIT = Duration.ofSeconds(10);
    /** A peer with the key that only keeps connections open would occupy the places of others. */
    private static final Duration QUESTION_LIMIT = Duration.ofSeconds(5);

    private static final long POLL_MS = 100;
    private static final long DRAIN_MS = 500;

    /** Answers one question. Called on the connections' threads, and may block for some seconds. */
    @FunctionalInterface
    public interface Answers {
        ClusterMessage answer(ClusterMessage question, String peer) throws InterruptedException;
    }

    private final RareLog log = new RareLog(LOG::warn);
    private final Answers answers;
    private final PeerListener listener;

    public QuestionListener(InetSocketAddress address, PeerAuthenticator key, Answers answers) throws IOException {
        this.answers = answers;
        this.listener = new PeerListener(address, key, this::serve);
    }

    /** Returns the bound address. */
    public InetSocketAddress address() {
        return listener.address();
    }

    /** Returns whether it accepts connections. Any thread; blocks for the limit at most. */
    public boolean responds(Duration limit) {
        return listener.responds(limit.toNanos());
    }

    private void serve(PeerConnection channel, SessionId session, ProtocolVersion version)
            throws IOException, InterruptedException {
        ControlLink link =
                ControlLink.forQuestions(channel, version, ControlLink.OF_FIRST_FRAME, SILENCE_LIMIT.toNanos());
        boolean answered = false;
        try {
            Deque<ClusterMessage> questions = new ArrayDeque<>();
            long endNs = System.nanoTime() + QUESTION_LIMIT.toNanos();
            while (System.nanoTime() - endNs < 0) {
                link.doWork((type, buffer, offset, lengthBytes) -> {
                    if (type != FrameType.MESSAGE || !questions.isEmpty()) {
                        throw new ProtocolException("a peer sends " + type + " before the answer to its question");
                    } else {
                        questions.add((ClusterMessage) ClusterMessage.read(buffer, offset));
                    }
                });
                // One answer at a time waits for a peer that reads slowly.
                if (!questions.isEmpty() && link.isClear()) {
                    link.sendFromAgent(answers.answer(questions.poll(), String.valueOf(link.peer())));
                    answered = true;
                    endNs = System.nanoTime() + QUESTION_LIMIT.toNanos();
                }
                if (link.transmit() == 0 && questions.isEmpty()) {
                    link.prepareToSleep();
                    link.idle(POLL_MS);
                }
            }
            link.drain(DRAIN_MS);
        } catch (IOException e) {
            // A peer ends the connection after the answer.
            if (answered) {
                LOG.debug("a connection with questions ended", e);
            } else {
                log.write("question", "no question arrives from " + link.peer() + ": " + e.getMessage());
            }
        } finally {
            link.close();
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
