package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.Polling;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.samples.MigrationSampler;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.protocol.control.ControlMessage.InspectFiles;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageParts;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
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
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.listen.PeerListener;
import io.ppmr.transport.tcp.RailPeer;
import io.ppmr.transport.tcp.TcpTransport;
import java.io.IOException;
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
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The connections of sources and other targets to this one, and their migrations, begun or from the journal. Safe for
 * any thread. Each connection and each migration has its own thread.
 */
final class TargetSessions {
    private static final Logger LOG = LoggerFactory.getLogger(TargetSessions.class);
    /** Room for incomplete messages of several frames, of all connections together. */
    private static final long LONG_MESSAGES_BYTES = 16 << 20;

    /** The heap for messages of all connections without a listening migration. */
    private static final int EARLY_BYTES = 6 << 20;

    /** The heap for messages that wait for all migrations' threads together. */
    private static final int INBOX_BYTES = 8 << 20;

    private static final long FIRST_MESSAGE_S = 10;
    private static final long LISTEN_S = 60;
    /** Time between two queries about files. The source may read a large file in between. */
    private static final long FILE_QUERY_S = 3600;

    /** Time for the release of buffers after a migration's end. It takes milliseconds, or longer on a busy node. */
    /** Time for the end of an earlier attempt, which the source does not wait for. It ends tools with much memory. */
    private static final Duration OVER_LIMIT = Duration.ofSeconds(15);

    private static final long TAKE_DOWN_NS = TimeUnit.SECONDS.toNanos(3);

    private static final long POLL_MS = 20;
    private static final String ENDS = "the target's service ends";

    /**
     * Time for a refused source to receive the refusal. It covers TCP's retransmission back-off after a link outage of
     * a few seconds.
     */
    private static final long REFUSAL_NS = TimeUnit.SECONDS.toNanos(15);

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
    /** The moves of restarts that an earlier run of the service has released. */
    private final Set<String> released = ConcurrentHashMap.newKeySet();

    private final Set<Thread> recovered = ConcurrentHashMap.newKeySet();

    private volatile boolean ending;
    private volatile boolean ended;

    private volatile Runnable changed = () -> LOG.debug("a migration begins or ends");
    private volatile Consumer<String> sessionEnded = id -> LOG.debug("a session of migration {} ends", id);
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
     * @param events the events on it
     */
    private record Connection(
            PeerConnection channel,
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
    void onChange(Runnable notified) {
        changed = notified;
    }

    /** Sets the callback for the end of each session, with the migration's name. The migration's thread calls it. */
    void onEnd(Consumer<String> notified) {
        sessionEnded = notified;
    }

    /** Returns true if the agents of all connections work. Any thread; blocks it. */
    boolean respond(long limitNs) {
        return agents.stream().allMatch(agent -> agent.responds(limitNs));
    }

    /** Returns the migrations that this node takes part in now. */
    Collection<TargetMigration> running() {
        return List.copyOf(running.values());
    }

    /**
     * Accepts no further migration, and ends every one that is not prepared. Call it again for those that began at that
     * time.
     *
     * @param notified migrations that were notified; this call adds to them
     */
    void giveUp(Set<TargetMigration> notified) {
        ending = true;
        for (TargetMigration migration : running.values()) {
            if (notified.add(migration)) {
                migration.giveUp(ENDS);
            }
        }
    }

    /**
     * Returns true if no migration works here. Each waits for a decision, or is closed down to its last file. A
     * beginning migration works, too.
     */
    boolean isAtRest() {
        return running.values().stream()
                        .allMatch(migration ->
                                migration.isPrepared() && migration.outcome().isEmpty())
                && running.keySet().containsAll(incoming.keySet());
    }

    /** Returns how many migrations can begin here now. */
    int freePlaces() {
        return freeReceiveBuffers.size();
    }

    /** Returns the progress of each of them. */
    List<Arrival> arrivals() {
        return running.values().stream()
                .map(one -> Optional.ofNullable(incoming.get(one.id()))
                        .map(begun -> begun.arrival(one))
                        .orElseGet(() -> ArrivalAccount.recovered(one)))
                .toList();
    }

    /** Ends interrupted restores, and recovers the voted attempts, of an earlier run of the service. */
    void recover() throws IOException {
        List<String> open = journal.open();
        try {
            for (RestartNote note : RestartNote.left(settings.journal())) {
                released.add(note.move());
            }
            Restoration.endInterrupted(settings.node().workDirectory(), this::wasVoted);
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

    /**
     * Returns true if an attempt was voted for, by its directory's name, "migration.attempt" and an optional suffix.
     */
    private boolean wasVoted(String directory) {
        if (released.contains(directory)) {
            return true;
        }
        String[] words = directory.split("\\.", -1);
        try {
            return journal.records(words[0]).stream()
                    .anyMatch(record -> String.valueOf(record.attempt()).equals(words[1])
                            && (record instanceof TransactionRecord.PreparedHere
                                    || record instanceof TransactionRecord.CommittedHere));
        } catch (IOException e) {
            LOG.error("keeping {}: the journal cannot be read: {}", directory, e.getMessage());
            return true;
        }
    }

    /** Ends the threads of recovered migrations, and begins no more of them. The rest is in the journal. */
    void end() {
        ended = true;
        recovered.forEach(Thread::interrupt);
    }

    private void runRecovered(TargetMigration migration) {
        recovered.add(Thread.currentThread());
        if (ended) {
            // The thread was added too late to be interrupted by the end.
            Thread.currentThread().interrupt();
        }
        try (LogContext.Scope about = LogContext.migration(migration.id())) {
            migration.run();
            // A later attempt may be under way by now.
            int last = migration.attempt();
            WorkDirectories.removeEnded(
                    settings.node().workDirectory(), (id, attempt) -> id.equals(migration.id()) && attempt <= last);
        } catch (IOException e) {
            LOG.warn(
                    "files of migration {} in the work directory could not be removed: {}",
                    migration.id(),
                    e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            running.remove(migration.id(), migration);
            recovered.remove(Thread.currentThread());
        }
    }

    /** Makes a migration from its records in the journal. Without records, nothing of it exists here. */
    private TargetMigration migration(String id) throws IOException {
        List<TransactionRecord> records = journal.records(id);
        return new TargetMigration(id, TransactionRecord.Secret.of(records), service, inbox(), records);
    }

    private Backlog inbox() {
        Duration patience = settings.node().silenceLimit().dividedBy(2);
        return new Backlog(INBOX_BYTES / Math.max(1, settings.rules().migrations()), patience);
    }

    /** Serves one control connection to its end, on the connection's thread. */
    void serve(PeerConnection channel, SessionId session, ProtocolVersion version)
            throws IOException, InterruptedException {
        ControlLink link = new ControlLink(
                channel,
                version,
                ControlLink.OF_FIRST_FRAME,
                settings.node().silenceLimit().toNanos());
        // The agent, and all threads of this connection, inherit the peer from this context.
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
        Optional<Admission.Introduction> introduction = admission.answer(first, link, incoming.values());
        if (introduction.isPresent()) {
            // The source may read its own files first.
            first = waiting.poll(FILE_QUERY_S, TimeUnit.SECONDS);
        }
        while (introduction.isPresent()
                && first instanceof SessionEvent.MessageReceived received
                && received.message() instanceof InspectFiles look) {
            from.events().handled(received);
            link.send(from.files().answer(look));
            first = waiting.poll(FILE_QUERY_S, TimeUnit.SECONDS);
        }
        if (introduction.isPresent() && !(first instanceof SessionEvent.MessageReceived)) {
            LOG.info("answered compatibility check from {}", link.peer());
        } else if (!(first instanceof SessionEvent.MessageReceived received)) {
            LOG.warn("no message on a connection from {}: {}", link.peer(), first);
        } else if (received.message() instanceof Begin begin) {
            try (LogContext.Scope whole = LogContext.migration(begin.migrationId())) {
                begin(begin, introduction, from);
            } catch (IOException e) {
                LOG.warn("migration {} from {} failed here: {}", begin.migrationId(), link.peer(), e.getMessage());
            }
        } else if (received.message() instanceof ControlMessage.Participation peer) {
            listen(peer, link, from.events());
        } else if (received.message() instanceof ControlMessage.AddressAway away) {
            handle(away, link);
            waiting.poll(FIRST_MESSAGE_S, TimeUnit.SECONDS);
        } else {
            throw new IOException(
                    received.message().getClass().getSimpleName() + " arrived at a wrong time: it begins nothing");
        }
    }

    /**
     * Handles another service's message that an address is away, or back. That service ends the connection after the
     * answer.
     */
    private void handle(ControlMessage.AddressAway away, ControlLink link) throws IOException {
        Message answer;
        try {
            answer = new ControlMessage.AddressAwayAck(service.surroundings().noteAddressAway(away));
        } catch (RequestException | IOException e) {
            log.write(
                    "away",
                    link.peer() + " reports address " + away.address() + " as away or back; the message was"
                            + " ignored: " + e.getMessage());
            answer = new ControlMessage.Refuse(String.valueOf(e.getMessage()));
        }
        link.send(answer);
    }

    /**
     * Serves a source or another target that sends messages about an existing migration, as long as it is connected.
     */
    private void listen(ControlMessage.Participation speaker, ControlLink link, ConnectionEvents events)
            throws IOException, InterruptedException {
        String id = speaker.migrationId();
        boolean isSource = speaker.participant().isEmpty();
        SessionEvent event;
        do {
            event = events.waiting().poll(LISTEN_S, TimeUnit.SECONDS);
            if (event instanceof SessionEvent.MessageReceived received) {
                TargetMigration migration = present(id);
                if (!migration.isParticipantSecret(speaker.secret())) {
                    throw new IOException("rejected message about migration " + id
                            + ": wrong migration secret. The sender holds the key but is not a participant");
                }
                if (isSource) {
                    migration.onSourceMessage(received, link);
                } else {
                    migration.onPeerMessage(speaker.participant(), received, link);
                }
                events.handled(received);
            }
        } while (event == null || event instanceof SessionEvent.MessageReceived);
        TargetMigration migration = running.get(id);
        if (migration != null && isSource) {
            migration.sourceLost(String.valueOf(event), link);
        }
    }

    /** Returns the current migration, or makes one from the journal while it has messages to send. */
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

    private void begin(Begin begin, Optional<Admission.Introduction> introduction, Connection from)
            throws IOException, InterruptedException {
        String refusal = admission.refusal(begin, introduction);
        TargetMigration before = running.get(begin.migrationId());
        MigrationSecret known = TransactionRecord.Secret.of(journal.records(begin.migrationId()));
        if (refusal == null && !begin.secret().matches(known)) {
            refusal = "another node began a migration of this name here, with another secret";
        }
        if (refusal == null && before != null && !Polling.until(OVER_LIMIT, () -> ending || isOver(before))) {
            refusal = "an attempt at it is not over here yet: try again later or elsewhere";
        }
        if (refusal == null && service.placements().hasAny(begin.migrationId())) {
            refusal = "files of an earlier attempt are not removed here yet: try again later or elsewhere";
        }
        ReceiveBuffers buffers = refusal == null ? freeBuffers() : null;
        if (refusal == null && buffers == null) {
            refusal = "migrations " + running.keySet() + " are under way on this node, which is the maximum: "
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
        Checkpointer tool = introduction.orElseThrow().tool().orElseThrow();
        ArrivalAccount begun = new ArrivalAccount(
                begin, addressOf(from.link()), introduction.get().job(), tool.readingMode() == ReadingMode.RETAINED);
        incoming.put(begin.migrationId(), begun);
        try {
            // The check follows the registration. Either the migration is refused, or the end of the service waits for
            // it.
            if (ending) {
                refuse(from, ENDS);
                return;
            }
            changed.run();
            run(begin, introduction.get().job().pods(), tool, join(begin, from, buffers), from, buffers);
        } finally {
            freeReceiveBuffers.add(buffers);
            incoming.remove(begin.migrationId(), begun);
            changed.run();
            sessionEnded.accept(begin.migrationId());
        }
    }

    private static boolean isOver(TargetMigration migration) {
        return migration.outcome().isPresent();
    }

    /**
     * Returns free buffers, or null. The source receives the end of a migration before its buffers are
     * released here, and may begin the next one at once. Therefore this waits for buffers that are being released.
     */
    private ReceiveBuffers freeBuffers() throws InterruptedException {
        long deadlineNs = System.nanoTime() + TAKE_DOWN_NS;
        ReceiveBuffers free = freeReceiveBuffers.poll();
        while (free == null
                && System.nanoTime() - deadlineNs < 0
                && incoming.keySet().stream().anyMatch(this::isBeingTakenDown)) {
            free = freeReceiveBuffers.poll(POLL_MS, TimeUnit.MILLISECONDS);
        }
        return free == null ? freeReceiveBuffers.poll() : free;
    }

    private boolean isBeingTakenDown(String id) {
        TargetMigration migration = running.get(id);
        return migration == null || migration.outcome().isPresent();
    }

    /** Returns the peer's address without the name that Java puts before it. */
    private static String addressOf(ControlLink link) {
        return link.peer().substring(link.peer().indexOf('/') + 1);
    }

    private static void passTo(TargetMigration migration, SessionEvent event, Connection from)
            throws ProtocolException {
        ControlLink link = from.link();
        if (event instanceof SessionEvent.MessageReceived received && received.message() instanceof InspectFiles look) {
            from.files().answerLater(look, link);
        } else if (event instanceof SessionEvent.MessageReceived received) {
            migration.onSourceMessage(received, link);
        } else if (event instanceof SessionEvent.LinkLost lost) {
            migration.sourceLost(lost.reason(), link);
        } else {
            migration.failed(((SessionEvent.TransferFailed) event).reason());
        }
    }

    /**
     * Refuses a migration. The connection is closed only after the source has received the refusal. An earlier close,
     * with unread bytes of the source, would reset the connection and could lose the refusal.
     */
    private static void refuse(Connection from, String reason) throws IOException, InterruptedException {
        from.link().send(new ControlMessage.Refuse(reason));
        long deadlineNs = System.nanoTime() + REFUSAL_NS;
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
                // With several networks, the session outlives the network of its control connection.
                from.link().allowResumption(true);
                listener.replaceControl(from.session(), from.link()::offer);
                return new RailPeer(
                        offered,
                        service.transports().direct(),
                        buffers.pool(),
                        from.link(),
                        receiver -> listener.forwardData(from.session(), receiver));
            }
        };
    }

    /** Makes the transport for the bytes. If that fails, the source receives the reason. */
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
                            from.channel().channel(),
                            from.link(),
                            from.events().waiting());
        } catch (IOException e) {
            Optional<String> loss = from.events().loss();
            if (loss.isPresent()) {
                throw new IOException("the source was lost before its bytes could arrive: " + loss.get(), e);
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
        Optional<MigrationSampler> sampler = service.samples()
                .map(store -> new MigrationSampler(
                        id, new SampledArrival(transfer, buffers.pool(), migration::outcome), store));
        long startNs = System.nanoTime();
        running.put(id, migration);
        try {
            sampler.ifPresent(MigrationSampler::start);
            from.events().passTo(event -> passTo(migration, event, from));
            migration.begin(begin, restoration, link, from.end()::markEnded);
            service.metrics()
                    .ended(
                            migration.outcome().orElse(FinalOutcome.ROLLED_BACK),
                            transfer.refusedSeeks(),
                            Duration.ofNanos(System.nanoTime() - startNs));
        } finally {
            sampler.ifPresent(MigrationSampler::end);
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
