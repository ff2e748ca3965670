package io.ppmr.source;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.RankRights;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.Finding;
import io.ppmr.source.MigrationPlan.Leg;
import io.ppmr.source.image.ImageFate;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.keep.Keeping;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SessionAgent;
import io.ppmr.source.session.SessionEvent;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
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

    /** A page of a record: at most three bytes a character, so that it fits a frame. */
    private static final int MAX_PAGE_CHARS = 16_384;

    private static final int MAX_PAGE_LINES = 1_024;

    private final SourceSettings settings;
    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view;
    private final SourceHops hops;
    private final MigrationPlan plan;
    private final int place;
    private final Connector connector;
    private final TransportChoice transports;
    private final ControlMessage.Introduce introduction;
    private final String directory;
    private final int attempt;
    private final Keeping keeping;
    private final BlockingQueue<SessionEvent> answers = new LinkedBlockingQueue<>();
    private volatile Consumer<SessionEvent> listener = answers::add;
    private ControlLink link;
    private volatile SessionAgent agent;
    private RegionExporter exporter;
    private LinkOutlet outlet;
    private OutgoingFiles files;
    private boolean closed;

    SourceSession(
            SourceSettings settings,
            BufferPool pool,
            FairClaims claims,
            OutgoingImageView view,
            SourceHops hops,
            MigrationPlan plan,
            int place,
            TransportChoice transports,
            ControlMessage.Introduce introduction,
            String migrationId,
            int attempt,
            Keeping keeping) {
        this.settings = settings;
        this.pool = pool;
        this.claims = claims;
        this.view = view;
        this.hops = hops;
        this.plan = plan;
        this.place = place;
        this.transports = transports;
        this.introduction = introduction;
        this.attempt = attempt;
        this.keeping = keeping;
        this.directory = migrationId + "." + attempt + (place == 0 ? "" : "." + place);
        this.connector = new Connector(leg().target(), settings.authenticator(), settings.connectDeadline());
    }

    Leg leg() {
        return plan.legs().get(place);
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
     * Connects and asks the target to take its ranks.
     *
     * @param after told what the target says after its answer, and that it is lost, on the agent's threads
     * @return why the target refuses, or null if it takes them
     */
    String begin(
            Job job,
            String migrationId,
            MigrationRecord journal,
            Cancellation cancellation,
            Consumer<SessionEvent> after)
            throws IOException, InterruptedException {
        Connector.Control control = connector.control();
        link = new ControlLink(
                control.channel(), attempt, settings.silenceLimit().toNanos());
        SourceTransport transport =
                new SourceTransport(transports, connector, leg().target(), settings.connectDeadline());
        if (!transport.offersRdma()) {
            exporter = transport.tcp(pool, control.session(), settings.dataConnections(), this::lost);
        }
        agent = new SessionAgent(link, claims, this::hear);
        agent.start();
        // Its clock now, when everything is connected: the target compares it with its own.
        link.send(new ControlMessage.Introduce(introduction.node().at(System.currentTimeMillis()), introduction.job()));
        link.send(new ControlMessage.Begin(
                migrationId,
                job.name(),
                job.checkpointer().name(),
                pool.geometry().chunkBytes(),
                settings.dataConnections(),
                job.user().uid(),
                job.user().gid(),
                leg().ranks(),
                plan.addresses(),
                place,
                transport.transports(),
                job.notes().ranks(),
                plan.map(job.others()).lines()));
        ControlMessage answer = awaitAnswer(cancellation);
        if (transport.offersRdma() && answer instanceof ControlMessage.Offer offer) {
            SourceTransport.Attachment attachment =
                    transport.attach(offer, pool, control.session(), settings.dataConnections(), this::lost);
            exporter = attachment.exporter();
            link.send(attachment.message());
            answer = awaitAnswer(cancellation);
        }
        if (answer instanceof ControlMessage.Refuse refuse) {
            close();
            return "target " + leg().target() + " refuses: " + refuse.reason();
        }
        if (!(answer instanceof ControlMessage.Accept accept) || exporter == null) {
            throw new IOException("target " + leg().target() + " answers with " + answer);
        }
        outlet = new LinkOutlet(link, exporter, hops);
        journal.sends(place, outlet::sentBytes);
        journal.clock(place, accept.clockNs(), System.nanoTime());
        show(job);
        listener = after;
        for (SessionEvent early = answers.poll(); early != null; early = answers.poll()) {
            after.accept(early);
        }
        after.accept(new SessionEvent.Said(answer));
        return null;
    }

    private void hear(SessionEvent event) {
        listener.accept(event);
    }

    private void lost(String reason) {
        hear(new SessionEvent.Lost(reason));
    }

    /** What the target says to Begin; the answer to the introduction, and progress, may come before it. */
    private ControlMessage awaitAnswer(Cancellation cancellation) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + ACCEPT_DEADLINE.toNanos();
        SessionEvent answer;
        do {
            cancellation.check();
            answer = answers.poll(ACCEPT_SLICE_MS, TimeUnit.MILLISECONDS);
        } while ((answer == null && System.nanoTime() - deadlineNs < 0)
                || (answer instanceof SessionEvent.Said said && comesBefore(said.message())));
        if (!(answer instanceof SessionEvent.Said said)) {
            throw new IOException("target " + leg().target() + " does not answer: "
                    + (answer instanceof SessionEvent.Lost lost ? lost.reason() : "nothing for " + ACCEPT_DEADLINE));
        }
        return said.message();
    }

    private static boolean comesBefore(ControlMessage message) {
        if (message instanceof ControlMessage.Introduced introduced) {
            for (Finding finding : introduced.findings()) {
                if (finding.level() == Finding.Level.WARN) {
                    LOG.warn("target {}: {}", introduced.node().hostName(), finding.sentence());
                }
            }
            return true;
        }
        return message instanceof ControlMessage.Progress;
    }

    /** Whether the session's agent, if it has begun, does its work. Any thread; blocks it. */
    boolean goesRound(long limitNs) {
        SessionAgent current = agent;
        return current == null || current.goesRound(limitNs);
    }

    private void show(Job job) throws IOException {
        JobUser owner = job.checkpointer().imageOwner(job.user());
        try {
            files = new OutgoingFiles(
                    directory,
                    view.tree(),
                    pool,
                    claims,
                    outlet,
                    keeping.copyOf(attempt),
                    new ImageFate(job.checkpointer().writesFromWithin()),
                    leg().ranks(),
                    owner.uid(),
                    owner.gid());
        } catch (ErrnoException e) {
            throw new IOException("the directories of the images cannot be made: " + e.getMessage(), e);
        }
        agent.begin(outlet, files);
        view.add(directory, files);
    }

    /** Says it over the session's link; throws if that is gone. */
    void send(ControlMessage message) throws IOException {
        if (link == null || closed) {
            throw new IOException("target " + leg().target() + " has not been connected");
        }
        link.send(message);
    }

    /**
     * Tells the target what a rank's originals may do and have open, for it to compare with what it restores. To be
     * called before the rank's image is said to be whole: after that the target may vote.
     */
    void sayWhatItMay(HeldRank held) throws IOException, CheckpointException {
        List<String> page = new ArrayList<>();
        int pageChars = 0;
        for (String line : RankRights.read(held.processes()).lines()) {
            if (line.length() > MAX_PAGE_CHARS) {
                throw new CheckpointException("rank " + held.rank() + ": a line of the record of what it may do has "
                        + line.length() + " characters, " + MAX_PAGE_CHARS
                        + " are carried. Remedy: its user is in too many groups to be moved");
            }
            if (pageChars + line.length() > MAX_PAGE_CHARS || page.size() == MAX_PAGE_LINES) {
                send(new ControlMessage.Originals(held.rank(), false, page));
                page.clear();
                pageChars = 0;
            }
            page.add(line);
            pageChars += line.length();
        }
        send(new ControlMessage.Originals(held.rank(), true, page));
    }

    /** Says why the images are not wanted any more; null while they are, and before there are any. */
    String failure() {
        return files == null ? null : files.failure();
    }

    /** Ends every write that waits: it fails and so does every later one, or they are taken and thrown away. */
    void fail(String reason) {
        if (outlet != null) {
            outlet.fail(reason);
        }
        if (files != null) {
            files.fail(reason);
        }
    }

    /** After {@link #fail}: every write fails, also where they were thrown away until now. */
    void refuse() {
        if (files != null) {
            files.refuse();
        }
    }

    /** Ends the transport, so that nobody reads the pool any more; may be called twice. */
    void stop() {
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
    }

    /** Takes everything down; may be called twice. */
    void close() {
        stop();
        if (files != null) {
            view.remove(directory);
            try {
                files.discard();
            } catch (ErrnoException e) {
                LOG.error("the names of a finished migration could not be taken away: {}", e.getMessage());
            }
            files = null;
        }
    }
}
