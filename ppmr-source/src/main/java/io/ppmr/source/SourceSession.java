package io.ppmr.source;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SessionAgent;
import io.ppmr.source.session.SessionEvent;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.tcp.Connector;
import io.ppmr.transport.tcp.TcpRegionExporter;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The source's half of the connection to one target for one attempt: link, agent, exporter and files, made together and
 * taken down together. Owned by the migration's thread.
 */
final class SourceSession {
    private static final Logger LOG = LoggerFactory.getLogger(SourceSession.class);
    private static final Duration ACCEPT_DEADLINE = Duration.ofSeconds(30);
    private static final long ACCEPT_SLICE_MS = 100;
    private static final Duration RECONNECT_PAUSE = Duration.ofSeconds(1);

    private final SourceSettings settings;
    private final InetSocketAddress target;
    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view;
    private final SourceHops hops;
    private final Connector connector;
    private final String directory;
    private final int attempt;
    private final BlockingQueue<SessionEvent> events = new LinkedBlockingQueue<>();
    private final BlockingQueue<SessionEvent> pauses = new LinkedBlockingQueue<>();
    private ControlLink link;
    private SessionAgent agent;
    private RegionExporter exporter;
    private LinkOutlet outlet;
    private OutgoingFiles files;
    private boolean closed;

    SourceSession(
            SourceSettings settings,
            InetSocketAddress target,
            BufferPool pool,
            FairClaims claims,
            OutgoingImageView view,
            SourceHops hops,
            String migrationId,
            int attempt) {
        this.settings = settings;
        this.target = target;
        this.pool = pool;
        this.claims = claims;
        this.view = view;
        this.hops = hops;
        this.attempt = attempt;
        this.directory = migrationId + "." + attempt;
        this.connector = new Connector(target, settings.authenticator(), settings.connectDeadline());
    }

    String directory() {
        return directory;
    }

    OutgoingFiles files() {
        return files;
    }

    LinkOutlet outlet() {
        return outlet;
    }

    Path imageDirectory(int rank) {
        return settings.mountPoint().resolve(directory).resolve("rank-" + rank);
    }

    /**
     * Connects and asks the target to take the migration.
     *
     * @return why the target refuses, or null if it takes it
     */
    String begin(Job job, String migrationId, MigrationRecord journal, Cancellation cancellation)
            throws IOException, InterruptedException {
        Connector.Control control = connector.control();
        link = new ControlLink(
                control.channel(), attempt, settings.silenceLimit().toNanos());
        List<SocketChannel> data = connector.data(control.session(), settings.dataConnections());
        exporter = new TcpRegionExporter(pool, data, reason -> events.add(new SessionEvent.Lost(reason)));
        outlet = new LinkOutlet(link, exporter, hops);
        journal.sends(outlet::sentBytes);
        List<Integer> ranks = job.ranks().stream().map(Job.RankProcess::rank).toList();
        agent = new SessionAgent(link, claims, events::add);
        agent.start();
        link.send(new ControlMessage.Begin(
                migrationId,
                job.name(),
                job.checkpointer().name(),
                pool.geometry().chunkBytes(),
                settings.dataConnections(),
                job.user().uid(),
                job.user().gid(),
                ranks));
        SessionEvent answer = awaitAnswer(cancellation);
        if (!(answer instanceof SessionEvent.Said said)) {
            throw new IOException("target " + target + " does not answer: "
                    + (answer instanceof SessionEvent.Lost lost ? lost.reason() : "nothing for " + ACCEPT_DEADLINE));
        }
        if (said.message() instanceof ControlMessage.Refuse refuse) {
            close();
            return "target " + target + " refuses: " + refuse.reason();
        }
        if (!(said.message() instanceof ControlMessage.Accept accept)) {
            throw new IOException("target " + target + " answers with " + said.message());
        }
        journal.clock(accept.clockNs(), System.nanoTime());
        show(job, ranks);
        return null;
    }

    /** The answer to Begin; progress may come before it. */
    private SessionEvent awaitAnswer(Cancellation cancellation) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + ACCEPT_DEADLINE.toNanos();
        SessionEvent answer;
        do {
            cancellation.check();
            answer = events.poll(ACCEPT_SLICE_MS, TimeUnit.MILLISECONDS);
        } while ((answer == null && System.nanoTime() - deadlineNs < 0)
                || (answer instanceof SessionEvent.Said said && said.message() instanceof ControlMessage.Progress));
        return answer;
    }

    private void show(Job job, List<Integer> ranks) throws IOException {
        try {
            files = new OutgoingFiles(
                    directory,
                    view.tree(),
                    pool,
                    claims,
                    outlet,
                    ranks,
                    job.user().uid(),
                    job.user().gid());
        } catch (ErrnoException e) {
            throw new IOException("the directories of the images cannot be made: " + e.getMessage(), e);
        }
        agent.begin(outlet, files);
        view.add(directory, files);
    }

    SessionEvent poll(Duration atMost) throws InterruptedException {
        return events.poll(atMost.toMillis(), TimeUnit.MILLISECONDS);
    }

    /** Fails every write that waits, and every later one. */
    void fail(String reason) {
        if (outlet != null) {
            outlet.fail(reason);
        }
        if (files != null) {
            files.fail(reason);
        }
    }

    /**
     * Tells the target that the originals are gone; connects again if it must, and does not let itself be interrupted.
     * Null, or why it could not be told.
     */
    String tellCommit(String migrationId, Duration deadline) {
        ControlMessage commit = new ControlMessage.Commit(migrationId);
        return tellUntil(commit, ControlMessage.Committed.class, deadline, settings.silenceLimit());
    }

    /** Tells the target to give up. Null, or why it has not confirmed. */
    String tellRollBack(String migrationId, String reason, Duration atMost) {
        if (link == null || agent == null) {
            return null;
        }
        ControlMessage rollBack = new ControlMessage.RollBack(migrationId, reason);
        return tellUntil(rollBack, ControlMessage.RolledBack.class, atMost, atMost);
    }

    private String tellUntil(
            ControlMessage message, Class<? extends ControlMessage> answer, Duration deadline, Duration first) {
        long deadlineNs = System.nanoTime() + deadline.toNanos();
        boolean interrupted = false;
        String failure = "not tried";
        boolean again = false;
        while (failure != null && System.nanoTime() - deadlineNs < 0) {
            try {
                if (again) {
                    LOG.warn("{} has not reached the target ({}); trying again", message, failure);
                    pauses.poll(RECONNECT_PAUSE.toMillis(), TimeUnit.MILLISECONDS);
                }
                failure = again ? tellAgain(message, answer) : tell(link, message, answer, events, first);
                again = true;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return failure;
    }

    private String tellAgain(ControlMessage message, Class<? extends ControlMessage> answer)
            throws InterruptedException {
        BlockingQueue<SessionEvent> answers = new LinkedBlockingQueue<>();
        try (ControlLink again = new ControlLink(
                connector.control().channel(), attempt, settings.silenceLimit().toNanos())) {
            SessionAgent talker = new SessionAgent(again, claims, answers::add);
            talker.start();
            try {
                return tell(again, message, answer, answers, settings.silenceLimit());
            } finally {
                talker.stop();
            }
        } catch (IOException e) {
            return e.getMessage();
        }
    }

    private static String tell(
            ControlLink to,
            ControlMessage message,
            Class<? extends ControlMessage> answer,
            BlockingQueue<SessionEvent> answers,
            Duration atMost)
            throws InterruptedException {
        try {
            to.send(message);
        } catch (IOException e) {
            return e.getMessage();
        }
        long deadlineNs = System.nanoTime() + atMost.toNanos();
        while (true) {
            SessionEvent event = answers.poll(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (event == null) {
                return "no answer within " + atMost;
            }
            if (event instanceof SessionEvent.Lost lost) {
                return lost.reason();
            }
            ControlMessage said = ((SessionEvent.Said) event).message();
            if (answer.isInstance(said)) {
                return null;
            }
            if (said instanceof ControlMessage.Refuse refuse) {
                // A target that knows nothing of the migration any more has nothing to give up.
                return message instanceof ControlMessage.RollBack ? null : refuse.reason();
            }
            if (said instanceof ControlMessage.Failed failed && message instanceof ControlMessage.Commit) {
                return "the target fails: " + failed.reason();
            }
        }
    }

    /** Takes everything down; may be called twice. */
    void close() {
        if (closed) {
            return;
        }
        closed = true;
        fail("the migration is over");
        if (agent != null) {
            agent.stop();
        } else if (link != null) {
            link.close();
        }
        if (exporter != null) {
            exporter.close();
        }
        if (files != null) {
            view.remove(directory);
            try {
                files.discard();
            } catch (ErrnoException e) {
                LOG.error("the names of a finished migration could not be taken away: {}", e.getMessage());
            }
        }
    }
}
