package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.migration.RequestException;
import io.ppmr.os.LogContext;
import io.ppmr.os.RareLog;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.protocol.control.ControlMessage.InspectFiles;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageParts;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.session.ReceiveBuffers;
import io.ppmr.target.session.TargetEnd;
import io.ppmr.target.session.Transfer;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.Transport;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.listen.PeerListener;
import io.ppmr.transport.tcp.RailPeer;
import io.ppmr.transport.tcp.TcpTransport;
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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The connections of sources and other targets to this one, and the migrations that they are about: begun on one, or
 * known from the journal. Safe for any thread; each connection and each migration has a thread of its own.
 */
final class TargetSessions {
    private static final Logger LOG = LoggerFactory.getLogger(TargetSessions.class);
    /** Messages of several frames that have not come whole, of all connections together. */
    private static final long LONG_MESSAGES_BYTES = 16 << 20;

    /** The heap for messages of all connections that no migration listens to yet. */
    private static final int EARLY_BYTES = 6 << 20;

    /** The heap for messages that all migrations together have heard and not dealt with yet. */
    private static final int INBOX_BYTES = 8 << 20;

    private static final long FIRST_MESSAGE_S = 10;
    private static final long LISTEN_S = 60;
    /** The source may read a large file between two questions about files. */
    private static final long LOOK_S = 3600;

    /** The buffers of a migration that has ended are free after some milliseconds, on a busy node later. */
    private static final long TAKE_DOWN_NS = TimeUnit.SECONDS.toNanos(3);

    private static final long LOOK_MS = 20;
    private static final String ENDS = "the target's service ends";

    /** A refused source has so long to hear it: enough for TCP to get through once a link that was down is up again. */
    private static final long HEARD_NS = TimeUnit.SECONDS.toNanos(15);

    private final RareLog log = new RareLog(LOG::warn);
    private final ContentDigests digests = new ContentDigests();
    private final MessageParts.ReassemblyBudget longMessages = new MessageParts.ReassemblyBudget(LONG_MESSAGES_BYTES);
    private final Backlog early = new Backlog(EARLY_BYTES, Duration.ZERO);
    private final TargetContext service;
    private final TargetSettings settings;
    private final Admission admission;
    private final TransactionJournal journal;
    private final BlockingQueue<ReceiveBuffers> freeReceiveBuffers;
    private final Map<String, TargetMigration> running = new ConcurrentHashMap<>();
    private final Map<String, ArrivalAccount> incoming = new ConcurrentHashMap<>();
    private final Set<SessionAgent> agents = ConcurrentHashMap.newKeySet();
    /** Threads of migrations that continue, or answer, without a connection of their own. */
    private final Set<Thread> recovered = ConcurrentHashMap.newKeySet();

    private volatile boolean ending;
    private volatile boolean ended;

    private volatile Runnable changed = () -> LOG.debug("a migration begins or ends");
    private volatile PeerListener listener;
    private volatile RailAddresses rails;

    TargetSessions(TargetContext service, Collection<ReceiveBuffers> receiveBuffers) {
        this.service = service;
        this.settings = service.settings();
        this.admission = service.admission();
        this.journal = service.journal();
        this.freeReceiveBuffers = new LinkedBlockingQueue<>(receiveBuffers);
    }

    /**
     * One control connection.
     *
     * @param events what is heard on it
     */
    private record Connection(
            SocketChannel channel,
            SessionId session,
            ControlLink link,
            SessionAgent agent,
            TargetEnd end,
            ConnectionEvents events,
            FileAnswers files) {}

    /** Sets the listener for data connections, before the first connection is served. */
    void listener(PeerListener peers) {
        listener = peers;
        rails = new RailAddresses(service.transports().rails(), peers);
        rails.listening();
    }

    /** Sets the callback for each beginning and end of a migration. */
    void onChange(Runnable told) {
        changed = told;
    }

    /** Returns true if the agents of all connections do their work. Any thread; blocks it. */
    boolean goRound(long limitNs) {
        return agents.stream().allMatch(agent -> agent.responds(limitNs));
    }

    /** The migrations that this node takes part in now. */
    Collection<TargetMigration> running() {
        return List.copyOf(running.values());
    }

    /**
     * Takes no further migration, and has every one end that is not prepared. To be called again, for those that began
     * at that moment.
     *
     * @param told those that have been told; they are added
     */
    void giveUp(Set<TargetMigration> told) {
        ending = true;
        for (TargetMigration migration : running.values()) {
            if (told.add(migration)) {
                migration.giveUp(ENDS);
            }
        }
    }

    /**
     * Returns true if nothing of a migration is at work here: each waits for a decision, or is taken down to its last
     * file. One that begins is no migration yet, and is at work.
     */
    boolean isAtRest() {
        return running.values().stream()
                        .allMatch(migration ->
                                migration.isPrepared() && migration.outcome().isEmpty())
                && running.keySet().containsAll(incoming.keySet());
    }

    /** Returns the progress of each of them. */
    List<Arrival> arrivals() {
        return running.values().stream()
                .map(one -> Optional.ofNullable(incoming.get(one.id()))
                        .map(begun -> begun.arrival(one))
                        .orElseGet(() -> ArrivalAccount.recovered(one)))
                .toList();
    }

    /** Ends what was being restored, and recovers what was voted for, when an earlier run of the service ended. */
    void recover() throws IOException {
        List<String> open = journal.open();
        try {
            Restoration.endAbandoned(settings.node().workDirectory(), this::wasVoted);
            recovered.add(service.placements().recover((id, attempt) -> filesOutcome(open, id, attempt)));
            for (String move : service.surroundings().arriving()) {
                if (!wasVoted(move)) {
                    service.surroundings().discard(move);
                }
            }
            WorkDirectories.removeEnded(
                    settings.node().workDirectory(),
                    (id, attempt) -> !open.contains(id) && !journal.records(id).isEmpty());
            for (String id : open) {
                TargetMigration migration = migration(id);
                running.put(id, migration);
                LogContext.thread(() -> runRecovered(migration), "ppmr-recovered")
                        .start();
            }
        } catch (CheckpointException e) {
            throw new IOException("the state of the former service run cannot be recovered: " + e.getMessage(), e);
        }
    }

    private PlacementNotes.AttemptOutcome filesOutcome(List<String> open, String id, int attempt) throws IOException {
        List<TransactionRecord> records = journal.records(id);
        boolean voted = wasVoted(id + "." + attempt);
        if (voted && open.contains(id)) {
            return PlacementNotes.AttemptOutcome.OPEN;
        }
        return records.stream()
                        .anyMatch(record ->
                                record instanceof TransactionRecord.CommittedHere && record.attempt() == attempt)
                ? PlacementNotes.AttemptOutcome.COMMITTED
                : PlacementNotes.AttemptOutcome.ROLLED_BACK;
    }

    /** Returns true if an attempt was voted for, by its directory's name, "migration.attempt" and what may follow. */
    private boolean wasVoted(String directory) {
        String[] words = directory.split("\\.", -1);
        try {
            return journal.records(words[0]).stream()
                    .anyMatch(record -> String.valueOf(record.attempt()).equals(words[1])
                            && (record instanceof TransactionRecord.PreparedHere
                                    || record instanceof TransactionRecord.CommittedHere));
        } catch (IOException e) {
            LOG.error("{} is left alone: the journal cannot be read: {}", directory, e.getMessage());
            return true;
        }
    }

    /**
     * Ends the threads that continue with what an earlier run of the service has begun, and begins no more of them; the
     * journal knows the rest.
     */
    void end() {
        ended = true;
        recovered.forEach(Thread::interrupt);
    }

    private void runRecovered(TargetMigration migration) {
        recovered.add(Thread.currentThread());
        if (ended) {
            // Added too late to be interrupted by the end.
            Thread.currentThread().interrupt();
        }
        try (LogContext.Scope about = LogContext.migration(migration.id())) {
            migration.run();
            // A later attempt may be under way by now.
            int last = migration.attempt();
            WorkDirectories.removeEnded(
                    settings.node().workDirectory(), (id, attempt) -> id.equals(migration.id()) && attempt <= last);
        } catch (IOException e) {
            LOG.warn("what migration {} has in the work directory stays there: {}", migration.id(), e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            running.remove(migration.id(), migration);
            recovered.remove(Thread.currentThread());
        }
    }

    /** A migration as the journal knows it; one that it does not know has nothing here. */
    private TargetMigration migration(String id) throws IOException {
        List<TransactionRecord> records = journal.records(id);
        return new TargetMigration(id, TransactionRecord.Secret.of(records), service, inbox(), records);
    }

    private Backlog inbox() {
        Duration patience = settings.node().silenceLimit().dividedBy(2);
        return new Backlog(INBOX_BYTES / Math.max(1, settings.rules().migrations()), patience);
    }

    /** Serves one control connection to its end, on the connection's thread. */
    void serve(SocketChannel channel, SessionId session) throws IOException, InterruptedException {
        ControlLink link = new ControlLink(
                channel,
                ControlLink.OF_FIRST_FRAME,
                settings.node().silenceLimit().toNanos());
        // The agent, and all threads that work for this connection, have the peer from here.
        try (LogContext.Scope about = LogContext.peer(addressOf(link));
                ConnectionEvents events = new ConnectionEvents(early);
                FileAnswers files = new FileAnswers(
                        service.programs(),
                        digests,
                        admission::whyNotFor,
                        settings.rules().ignoredChecks().contains("files"),
                        () -> events.loss().isPresent(),
                        settings.carry())) {
            TargetEnd end = new TargetEnd(link, events);
            SessionAgent agent = new SessionAgent("ppmr-target-session", link, ControlMessage::read, longMessages, end);
            try {
                agent.start();
                agents.add(agent);
                serve(new Connection(channel, session, link, agent, end, events, files));
            } finally {
                agents.remove(agent);
                agent.stop();
            }
        }
    }

    private void serve(Connection from) throws IOException, InterruptedException {
        ControlLink link = from.link();
        BlockingQueue<SessionEvent> waiting = from.events().waiting();
        SessionEvent first = waiting.poll(FIRST_MESSAGE_S, TimeUnit.SECONDS);
        Optional<Admission.Introduction> heard = admission.answer(first, link, incoming.values());
        if (heard.isPresent()) {
            // The source may look at its own files first.
            first = waiting.poll(LOOK_S, TimeUnit.SECONDS);
        }
        while (heard.isPresent()
                && first instanceof SessionEvent.MessageReceived said
                && said.message() instanceof InspectFiles look) {
            from.events().handled(said);
            link.send(from.files().answer(look));
            first = waiting.poll(LOOK_S, TimeUnit.SECONDS);
        }
        if (heard.isPresent() && !(first instanceof SessionEvent.MessageReceived)) {
            LOG.info("answered compatibility check from {}", link.peer());
        } else if (!(first instanceof SessionEvent.MessageReceived said)) {
            LOG.warn("a connection from {} said nothing: {}", link.peer(), first);
        } else if (said.message() instanceof Begin begin) {
            try (LogContext.Scope whole = LogContext.migration(begin.migrationId())) {
                begin(begin, heard, from);
            } catch (IOException e) {
                LOG.warn(
                        "migration {} from {} has broken off here: {}",
                        begin.migrationId(),
                        link.peer(),
                        e.getMessage());
            }
        } else if (said.message() instanceof ControlMessage.Participation peer) {
            listen(peer, link, from.events());
        } else if (said.message() instanceof ControlMessage.AddressAway away) {
            hear(away, link);
            waiting.poll(FIRST_MESSAGE_S, TimeUnit.SECONDS);
        } else {
            throw new IOException(
                    said.message().getClass().getSimpleName() + " comes at a wrong time: it begins nothing");
        }
    }

    /** Another service says that an address is away, or back; it ends the connection when it has its answer. */
    private void hear(ControlMessage.AddressAway away, ControlLink link) throws IOException {
        Message answer;
        try {
            answer = new ControlMessage.AddressAwayAck(service.surroundings().hearOf(away));
        } catch (RequestException | IOException e) {
            log.write(
                    "away",
                    link.peer() + " says of address " + away.address() + " that it is away or back, and nothing"
                            + " comes of it: " + e.getMessage());
            answer = new ControlMessage.Refuse(String.valueOf(e.getMessage()));
        }
        link.send(answer);
    }

    /** A source, or another target, speaks of a migration without wanting to begin it: for as long as it stays. */
    private void listen(ControlMessage.Participation speaker, ControlLink link, ConnectionEvents events)
            throws IOException, InterruptedException {
        String id = speaker.migrationId();
        boolean isSource = speaker.participant().isEmpty();
        SessionEvent event;
        do {
            event = events.waiting().poll(LISTEN_S, TimeUnit.SECONDS);
            if (event instanceof SessionEvent.MessageReceived said) {
                TargetMigration migration = present(id);
                if (!migration.believes(speaker.secret())) {
                    throw new IOException("rejected message about migration " + id
                            + ": wrong migration secret. The sender holds the key but is not a participant");
                }
                if (isSource) {
                    migration.onSourceMessage(said, link);
                } else {
                    migration.onPeerMessage(speaker.participant(), said, link);
                }
                events.handled(said);
            }
        } while (event == null || event instanceof SessionEvent.MessageReceived);
        TargetMigration migration = running.get(id);
        if (migration != null && isSource) {
            migration.sourceLost(String.valueOf(event), link);
        }
    }

    /** The migration that is under way, or what the journal knows of it, for as long as it has something to say. */
    private TargetMigration present(String id) throws IOException {
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

    private void begin(Begin begin, Optional<Admission.Introduction> heard, Connection from)
            throws IOException, InterruptedException {
        String refusal = admission.refusal(begin, heard);
        TargetMigration before = running.get(begin.migrationId());
        MigrationSecret known = TransactionRecord.Secret.of(journal.records(begin.migrationId()));
        if (refusal == null && !begin.secret().matches(known)) {
            refusal = "another node has begun a migration of this name here: its secret is another one";
        }
        if (refusal == null && before != null && before.outcome().isEmpty()) {
            refusal = "an attempt at it is not over here yet: try again later or elsewhere";
        }
        if (refusal == null && service.placements().hasAny(begin.migrationId())) {
            refusal = "files of an attempt before are not taken away here yet: try again later or elsewhere";
        }
        ReceiveBuffers buffers = refusal == null ? freeBuffers() : null;
        if (refusal == null && buffers == null) {
            refusal = "migrations " + running.keySet() + " are under way on this node, which takes no more at once: "
                    + "try again later or elsewhere";
        }
        if (refusal != null) {
            LOG.warn(
                    "migration {} from {} is refused: {}",
                    begin.migrationId(),
                    from.link().peer(),
                    refusal);
            service.metrics().refused();
            refuse(from, refusal);
            return;
        }
        Checkpointer tool = heard.orElseThrow().tool().orElseThrow();
        ArrivalAccount begun = new ArrivalAccount(
                begin, addressOf(from.link()), heard.get().job(), tool.readingMode() == ReadingMode.RETAINED);
        incoming.put(begin.migrationId(), begun);
        try {
            // Looked at when this one can be seen: either it is refused, or the end of the service waits for it.
            if (ending) {
                refuse(from, ENDS);
                return;
            }
            changed.run();
            run(begin, heard.get().job().pods(), tool, join(begin, from, buffers), from, buffers);
        } finally {
            freeReceiveBuffers.add(buffers);
            incoming.remove(begin.migrationId(), begun);
            changed.run();
        }
    }

    /**
     * Returns free buffers, or null. A source is notified of the end of its migration before the migration is taken
     * down here, and may begin the next one at once: so this waits for what is being taken down.
     */
    private ReceiveBuffers freeBuffers() throws InterruptedException {
        long deadlineNs = System.nanoTime() + TAKE_DOWN_NS;
        ReceiveBuffers free = freeReceiveBuffers.poll();
        while (free == null
                && System.nanoTime() - deadlineNs < 0
                && incoming.keySet().stream().anyMatch(this::isBeingTakenDown)) {
            free = freeReceiveBuffers.poll(LOOK_MS, TimeUnit.MILLISECONDS);
        }
        return free == null ? freeReceiveBuffers.poll() : free;
    }

    private boolean isBeingTakenDown(String id) {
        TargetMigration migration = running.get(id);
        return migration == null || migration.outcome().isPresent();
    }

    /** The peer's address without the name that Java puts before it. */
    private static String addressOf(ControlLink link) {
        return link.peer().substring(link.peer().indexOf('/') + 1);
    }

    private static void tell(TargetMigration migration, SessionEvent event, Connection from) throws ProtocolException {
        ControlLink link = from.link();
        if (event instanceof SessionEvent.MessageReceived said && said.message() instanceof InspectFiles look) {
            from.files().answerLater(look, link);
        } else if (event instanceof SessionEvent.MessageReceived said) {
            migration.onSourceMessage(said, link);
        } else if (event instanceof SessionEvent.LinkLost lost) {
            migration.sourceLost(lost.reason(), link);
        } else {
            migration.failed(((SessionEvent.TransferFailed) event).reason());
        }
    }

    /**
     * Refuses a migration. The connection is closed only when the source has heard it: closing first, with bytes of the
     * source unread, would reset the connection and could take the word back.
     */
    private static void refuse(Connection from, String reason) throws IOException, InterruptedException {
        from.link().send(new ControlMessage.Refuse(reason));
        long deadlineNs = System.nanoTime() + HEARD_NS;
        SessionEvent event;
        do {
            event = from.events().waiting().poll(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
        } while (event != null && !(event instanceof SessionEvent.LinkLost));
    }

    private TransportChoice.RailPorts railPorts(Connection from, ReceiveBuffers buffers) {
        return new TransportChoice.RailPorts() {
            @Override
            public List<DataMessage.OfferedRail> offered() {
                return rails.listening();
            }

            @Override
            public Transport.TransportPeer accept(List<DataMessage.OfferedRail> offered) {
                // Where there are several networks the session outlives the one of its control connection.
                from.link().allowResumption(true);
                listener.replaceControl(from.session(), from.link()::offer);
                return new RailPeer(
                        offered,
                        service.transports().direct(),
                        buffers.pool(),
                        from.link(),
                        taker -> listener.forwardData(from.session(), taker));
            }
        };
    }

    /** The connections over which the bytes come; a source that cannot be joined hears why. */
    private Transport.TransportPeer join(Begin begin, Connection from, ReceiveBuffers buffers)
            throws IOException, InterruptedException {
        TcpTransport tcp = new TcpTransport(deadline ->
                listener.awaitData(from.session(), begin.transfer().dataConnections(), deadline, () -> from.events()
                        .loss()
                        .isPresent()));
        try {
            return service.transports()
                    .accept(
                            begin.transfer().transports(),
                            tcp,
                            railPorts(from, buffers),
                            buffers.pool(),
                            from.channel(),
                            from.link(),
                            from.events().waiting());
        } catch (IOException e) {
            Optional<String> loss = from.events().loss();
            if (loss.isPresent()) {
                throw new IOException("the source was lost before its bytes could come: " + loss.get(), e);
            }
            refuse(from, String.valueOf(e.getMessage()));
            throw e;
        }
    }

    private void run(
            Begin begin,
            Map<Integer, PodFacts> pods,
            Checkpointer checkpointer,
            Transport.TransportPeer joined,
            Connection from,
            ReceiveBuffers buffers)
            throws IOException, InterruptedException {
        ControlLink link = from.link();
        SessionAgent agent = from.agent();
        String id = begin.migrationId();
        String directory =
                id + "." + link.attempt() + (begin.participantIndex() == 0 ? "" : "." + begin.participantIndex());
        TargetMigration migration = new TargetMigration(id, begin.secret(), service, inbox(), journal.records(id));
        Transfer transfer = transfer(begin, directory, checkpointer, buffers, link, joined, migration);
        incoming.get(id).add(transfer);
        from.end().begin(transfer);
        service.view().add(directory, transfer.images());
        Restoration restoration = migration.restoration(begin, pods, checkpointer, transfer, directory);
        long startNs = System.nanoTime();
        running.put(id, migration);
        try {
            from.events().passTo(event -> tell(migration, event, from));
            migration.begin(begin, restoration, link, from.end()::markEnded);
            service.metrics()
                    .ended(
                            migration.outcome().orElse(FinalOutcome.ROLLED_BACK),
                            transfer.refusedSeeks(),
                            Duration.ofNanos(System.nanoTime() - startNs));
        } finally {
            agent.stop();
            restoration.close();
            service.view().remove(directory);
            running.remove(id, migration);
        }
    }

    private Transfer transfer(
            Begin begin,
            String directory,
            Checkpointer checkpointer,
            ReceiveBuffers buffers,
            ControlLink link,
            Transport.TransportPeer joined,
            TargetMigration migration)
            throws IOException {
        buffers.prefixes().reset();
        JobUser owner = checkpointer.imageOwner(new JobUser(begin.uid(), begin.gid()));
        try {
            return new Transfer(
                    settings.transfer(),
                    buffers.pool(),
                    buffers.bounceBuffers(),
                    link,
                    new ArrivingImages.ImagesContext(
                            directory,
                            checkpointer,
                            service.view().tree(),
                            settings.pool(),
                            buffers.prefixes(),
                            owner.uid(),
                            owner.gid(),
                            begin.ranks()),
                    joined::open,
                    migration::failed,
                    service.metrics().hops());
        } catch (ErrnoException | RuntimeException e) {
            joined.close();
            service.view().removeTree(directory);
            throw new IOException("the images of migration " + begin.migrationId() + " cannot be shown", e);
        }
    }
}
