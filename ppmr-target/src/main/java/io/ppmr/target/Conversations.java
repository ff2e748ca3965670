package io.ppmr.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.logging.LogContext;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.ControlMessage.Begin;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.session.SessionAgent;
import io.ppmr.target.session.SessionEvent;
import io.ppmr.target.session.Transfer;
import io.ppmr.transaction.Outcome;
import io.ppmr.transaction.PlannedRank;
import io.ppmr.transaction.TransactionJournal;
import io.ppmr.transaction.TransactionMessage;
import io.ppmr.transaction.TransactionRecord;
import io.ppmr.transaction.WireMessages;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.auth.SessionId;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What sources and other targets say to this one, and the migrations that it is about: begun on a connection, or known
 * from the journal. Safe for any thread; each connection and each migration has a thread of its own.
 */
final class Conversations {
    private static final Logger LOG = LoggerFactory.getLogger(Conversations.class);
    private static final long FIRST_MESSAGE_S = 10;
    private static final long LISTEN_S = 60;

    private final TargetSettings settings;
    private final TargetTransport transports;
    private final Introduction introduction;
    private final NativePrograms programs;
    private final TransactionJournal journal;
    private final ArrivingImageView view;
    private final TargetMetrics metrics;
    private final Admission admission;
    private final BlockingQueue<Berth> freeBerths;
    private final Map<String, TargetMigration> running = new ConcurrentHashMap<>();
    private final Map<String, Incoming> incoming = new ConcurrentHashMap<>();
    private final Set<SessionAgent> agents = ConcurrentHashMap.newKeySet();
    private volatile Runnable changed = () -> LOG.debug("a migration begins or ends");
    private volatile PeerListener listener;

    Conversations(
            TargetSettings settings,
            TargetTransport transports,
            Introduction introduction,
            NativePrograms programs,
            TransactionJournal journal,
            ArrivingImageView view,
            TargetMetrics metrics,
            Collection<Berth> berths) {
        this.settings = settings;
        this.transports = transports;
        this.introduction = introduction;
        this.programs = programs;
        this.journal = journal;
        this.view = view;
        this.metrics = metrics;
        this.admission = new Admission(settings, transports, introduction);
        this.freeBerths = new LinkedBlockingQueue<>(berths);
    }

    /** Where data connections come in; said before the first connection is served. */
    void listener(PeerListener peers) {
        listener = peers;
    }

    /** Has somebody told whenever a migration begins or ends here. */
    void onChange(Runnable told) {
        changed = told;
    }

    /** Whether the agents of all connections do their work. Any thread; blocks it. */
    boolean goRound(long limitNs) {
        return agents.stream().allMatch(agent -> agent.goesRound(limitNs));
    }

    /** The migrations that this node takes part in now. */
    Collection<TargetMigration> running() {
        return List.copyOf(running.values());
    }

    /** How far each of them is. */
    List<Arrival> arrivals() {
        return running.values().stream()
                .map(one -> Optional.ofNullable(incoming.get(one.id()))
                        .map(begun -> begun.arrival(one))
                        .orElseGet(() -> Incoming.takenUp(one)))
                .toList();
    }

    /** Ends what was being restored, and takes up what was voted for, when an earlier run of the service ended. */
    void recover() throws IOException {
        List<String> open = journal.open();
        try {
            Restoration.endAbandoned(settings.workDirectory(), this::wasVoted);
            for (String id : open) {
                TargetMigration migration = migration(id);
                running.put(id, migration);
                LogContext.thread(() -> runRecovered(migration), "ppmr-recovered")
                        .start();
            }
        } catch (CheckpointException e) {
            throw new IOException("what the service before has left cannot be taken up: " + e.getMessage(), e);
        }
    }

    /** Whether an attempt was voted for, by its directory's name, "migration.attempt" and what may follow. */
    private boolean wasVoted(String directory) {
        String[] words = directory.split("\\.", -1);
        try {
            return journal.records(words[0]).stream()
                    .anyMatch(record -> String.valueOf(record.attempt()).equals(words[1])
                            && (record instanceof TransactionRecord.Prepared
                                    || record instanceof TransactionRecord.CommittedHere));
        } catch (IOException e) {
            LOG.error("{} is left alone: the journal cannot be read: {}", directory, e.getMessage());
            return true;
        }
    }

    private void runRecovered(TargetMigration migration) {
        try (LogContext.Scope about = LogContext.migration(migration.id())) {
            migration.run();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            running.remove(migration.id(), migration);
        }
    }

    /** A migration as the journal knows it; one that it does not know has nothing here. */
    private TargetMigration migration(String id) throws IOException, CheckpointException {
        List<TransactionRecord> records = journal.records(id);
        TransactionRecord.Prepared vote = null;
        for (TransactionRecord record : records) {
            vote = record instanceof TransactionRecord.Prepared prepared ? prepared : vote;
        }
        List<PlannedRank> voted = vote == null ? List.of() : vote.copies();
        int attempt = vote == null ? 0 : vote.attempt();
        CopiedRanks copies =
                CopiedRanks.recorded(id, voted, rank -> TransactionRecord.Stopped.of(records, attempt, rank));
        return new TargetMigration(id, settings, programs, copies, records, journal);
    }

    /** Serves one control connection to its end, on the connection's thread. */
    void serve(SocketChannel channel, SessionId session) throws IOException, InterruptedException {
        BlockingQueue<SessionEvent> early = new LinkedBlockingQueue<>();
        AtomicReference<Consumer<SessionEvent>> listeningTo = new AtomicReference<>(early::add);
        ControlLink link = new ControlLink(
                channel, ControlLink.OF_FIRST_FRAME, settings.silenceLimit().toNanos());
        SessionAgent agent = new SessionAgent(link, event -> listeningTo.get().accept(event));
        // The agent, and all threads that work for this connection, have it from here.
        try (LogContext.Scope about = LogContext.peer(addressOf(link))) {
            agent.start();
            agents.add(agent);
            SessionEvent first = early.poll(FIRST_MESSAGE_S, TimeUnit.SECONDS);
            Optional<Introduction.Visitor> heard = introduction.answer(first, link, incoming.values());
            if (heard.isPresent()) {
                first = early.poll(FIRST_MESSAGE_S, TimeUnit.SECONDS);
            }
            if (heard.isPresent() && !(first instanceof SessionEvent.Said)) {
                LOG.info("{} wanted to know whether it could come here", link.peer());
            } else if (!(first instanceof SessionEvent.Said said)) {
                LOG.warn("a connection from {} said nothing: {}", link.peer(), first);
            } else if (said.message() instanceof Begin begin) {
                try (LogContext.Scope whole = LogContext.migration(begin.migrationId())) {
                    try {
                        begin(begin, heard, session, channel, link, agent, early, listeningTo);
                    } catch (IOException | CheckpointException e) {
                        LOG.warn(
                                "migration {} from {} has broken off here: {}",
                                begin.migrationId(),
                                link.peer(),
                                e.getMessage());
                    }
                }
            } else {
                listen(said.message(), link, early);
            }
        } catch (CheckpointException e) {
            throw new IOException(e.getMessage(), e);
        } finally {
            agents.remove(agent);
            agent.stop();
        }
    }

    /** A source, or another target, speaks of a migration without wanting to begin it: for as long as it stays. */
    private void listen(ControlMessage first, ControlLink link, BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException, CheckpointException {
        Optional<String> peer = first instanceof ControlMessage.Peer introduced
                ? Optional.of(introduced.participant())
                : Optional.empty();
        String id = migrationOf(first);
        SessionEvent event = new SessionEvent.Said(first);
        while (event == null || event instanceof SessionEvent.Said) {
            if (event instanceof SessionEvent.Said said && !(said.message() instanceof ControlMessage.Peer)) {
                Heard heard = peer.isPresent()
                        ? new Heard.FromPeer(peer.get(), link.attempt(), said.message())
                        : new Heard.FromSource(said.message(), link);
                present(id).hear(heard);
            }
            event = events.poll(LISTEN_S, TimeUnit.SECONDS);
        }
        TargetMigration migration = running.get(id);
        if (migration != null && peer.isEmpty()) {
            migration.hear(new Heard.SourceLost(String.valueOf(event), link));
        }
    }

    /** The migration that is under way, or what the journal knows of it, for as long as it has something to say. */
    private TargetMigration present(String id) throws IOException, CheckpointException {
        synchronized (running) {
            TargetMigration migration = running.get(id);
            if (migration == null || migration.isGone()) {
                migration = migration(id);
                running.put(id, migration);
                TargetMigration started = migration;
                LogContext.thread(() -> runRecovered(started), "ppmr-answer").start();
            }
            return migration;
        }
    }

    private static String migrationOf(ControlMessage message) throws IOException {
        if (message instanceof ControlMessage.Peer peer) {
            return peer.migrationId();
        }
        return WireMessages.fromWire(1, message)
                .map(TransactionMessage::migrationId)
                .orElseThrow(() -> new IOException(
                        message.getClass().getSimpleName() + " comes at a wrong time: it begins nothing"));
    }

    private void begin(
            Begin begin,
            Optional<Introduction.Visitor> heard,
            SessionId session,
            SocketChannel channel,
            ControlLink link,
            SessionAgent agent,
            BlockingQueue<SessionEvent> early,
            AtomicReference<Consumer<SessionEvent>> listeningTo)
            throws IOException, InterruptedException, CheckpointException {
        String refusal = admission.refusal(begin, heard);
        TargetMigration before = running.get(begin.migrationId());
        if (refusal == null && before != null && before.outcome().isEmpty()) {
            refusal = "an attempt at it is not over here yet: try again later or elsewhere";
        }
        Berth berth = refusal == null ? freeBerths.poll() : null;
        if (refusal == null && berth == null) {
            refusal = "migrations " + running.keySet() + " are under way on this node, which takes no more at once: "
                    + "try again later or elsewhere";
        }
        if (refusal != null) {
            LOG.warn("migration {} from {} is refused: {}", begin.migrationId(), link.peer(), refusal);
            metrics.refused();
            link.send(new ControlMessage.Refuse(refusal));
            LastWords.awaitHeard(early);
            return;
        }
        Incoming begun =
                new Incoming(begin, addressOf(link), heard.orElseThrow().job(), admission.retains(begin));
        incoming.put(begin.migrationId(), begun);
        try {
            changed.run();
            TargetTransport.Joined joined = join(begin, session, channel, link, early, berth);
            run(begin, joined, link, agent, berth, migration -> {
                listeningTo.set(event -> migration.hear(heard(event, link)));
                for (SessionEvent event = early.poll(); event != null; event = early.poll()) {
                    migration.hear(heard(event, link));
                }
            });
        } finally {
            incoming.remove(begin.migrationId(), begun);
            freeBerths.add(berth);
            changed.run();
        }
    }

    /** The peer's address without the name that Java puts before it. */
    private static String addressOf(ControlLink link) {
        return link.peer().substring(link.peer().indexOf('/') + 1);
    }

    private static Heard heard(SessionEvent event, ControlLink link) {
        if (event instanceof SessionEvent.Said said) {
            return new Heard.FromSource(said.message(), link);
        }
        return event instanceof SessionEvent.LinkLost lost
                ? new Heard.SourceLost(lost.reason(), link)
                : new Heard.Failed(((SessionEvent.TransferFailed) event).reason());
    }

    /** The connections over which the bytes come; a source that cannot be joined hears why. */
    private TargetTransport.Joined join(
            Begin begin,
            SessionId session,
            SocketChannel channel,
            ControlLink link,
            BlockingQueue<SessionEvent> early,
            Berth berth)
            throws IOException, InterruptedException {
        try {
            return transports.join(begin, berth.pool(), session, channel, link, early, listener);
        } catch (IOException e) {
            link.send(new ControlMessage.Refuse(String.valueOf(e.getMessage())));
            LastWords.awaitHeard(early);
            throw e;
        }
    }

    private void run(
            Begin begin,
            TargetTransport.Joined joined,
            ControlLink link,
            SessionAgent agent,
            Berth berth,
            Consumer<TargetMigration> connect)
            throws IOException, InterruptedException, CheckpointException {
        String id = begin.migrationId();
        String directory = id + "." + link.attempt() + (begin.place() == 0 ? "" : "." + begin.place());
        Checkpointer checkpointer = admission.checkpointer(begin).orElseThrow();
        TargetMigration migration = migration(id);
        Transfer transfer = transfer(begin, directory, checkpointer, berth, link, joined, migration);
        incoming.get(id).comes(transfer);
        agent.begin(transfer);
        view.add(directory, transfer.images());
        Restoration restoration = migration.restoration(begin, checkpointer, transfer, directory);
        long startNs = System.nanoTime();
        running.put(id, migration);
        connect.accept(migration);
        try {
            migration.begin(begin, restoration, link, agent::conversationOver);
            metrics.ended(
                    migration.outcome().orElse(Outcome.ROLLED_BACK),
                    transfer.refusedSeeks(),
                    Duration.ofNanos(System.nanoTime() - startNs));
        } finally {
            agent.stop();
            restoration.close();
            view.remove(directory);
            running.remove(id, migration);
        }
    }

    private Transfer transfer(
            Begin begin,
            String directory,
            Checkpointer checkpointer,
            Berth berth,
            ControlLink link,
            TargetTransport.Joined joined,
            TargetMigration migration)
            throws IOException {
        berth.heads().reset();
        JobUser owner = checkpointer.imageOwner(new JobUser(begin.uid(), begin.gid()));
        try {
            return new Transfer(
                    settings.transfer(),
                    berth.pool(),
                    berth.laneChunks(),
                    link,
                    new ArrivingImages.Setting(
                            directory,
                            checkpointer,
                            view.tree(),
                            settings.pool(),
                            berth.heads(),
                            owner.uid(),
                            owner.gid(),
                            begin.ranks()),
                    joined.maker(),
                    reason -> migration.hear(new Heard.Failed(reason)),
                    metrics.hops());
        } catch (ErrnoException | RuntimeException e) {
            joined.close();
            view.removeTree(directory);
            throw new IOException("the images of migration " + begin.migrationId() + " cannot be shown", e);
        }
    }
}
