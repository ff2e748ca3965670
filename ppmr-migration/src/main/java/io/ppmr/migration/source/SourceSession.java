package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask.WhenStopped;
import io.ppmr.checkpoint.FileLooker;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessPrivileges;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.files.CarriedFile;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.linux.MountEntry;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.node.ClockCheck;
import io.ppmr.migration.node.FileComparison;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.JobProbe;
import io.ppmr.migration.source.MigrationPlan.Leg;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.source.image.ImageFailure;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.WriterActivity;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SourceEnd;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RailSender;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.SessionListener;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.tcp.Connector;
import io.ppmr.transport.tcp.ControlReconnector;
import io.ppmr.transport.tcp.RailConnector;
import io.ppmr.transport.tcp.TcpTransport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The source's half of the connection to one target for one attempt. Link, agent, transport and files are made together
 * and closed together. Owned by the migration's worker.
 */
final class SourceSession {
    private static final Logger LOG = LoggerFactory.getLogger(SourceSession.class);
    private static final Duration ACCEPT_DEADLINE = Duration.ofSeconds(30);
    private static final long ACCEPT_SLICE_MS = 100;
    private static final long FILES_SLICE_MS = 100;
    /** Deadline for one route on which the control connection may resume. A route that is cut gets no more time. */
    private static final Duration RESUME_DEADLINE = Duration.ofSeconds(2);

    /** Heap for messages of a target that has not accepted yet. */
    private static final int EARLY_BYTES = 4 << 20;

    /** The rank of a history record about all ranks. */
    private static final int EVERY_RANK = -1;

    /** Maximum size of a page of a record. A character has at most three bytes, so that a page fits a frame. */
    private static final int MAX_PAGE_CHARS = 16_384;

    private static final int MAX_PAGE_LINES = 1_024;

    private final Attempt.MigrationContext context;
    private final SourceContext service;
    private final SourceSettings settings;
    private final Job job;
    private final int attempt;
    private final int tries;
    private final MigrationPlan plan;
    private final int place;
    private final NodeFacts here;
    private final Connector connector;
    private final WriterActivity activity;
    private final String directory;
    private final BlockingQueue<SessionEvent> answers = new LinkedBlockingQueue<>();
    /** The answer to the current query about files, or the loss of the link. */
    private final BlockingQueue<SessionEvent> fileAnswers = new LinkedBlockingQueue<>();

    private final AtomicBoolean isFileQueryOpen = new AtomicBoolean();
    /** The ranks whose files are in place, and the loss of the link. */
    private final BlockingQueue<SessionEvent> placed = new LinkedBlockingQueue<>();

    /** Files that were sent, with their facts when they were read. */
    private final Map<CarriedFile, FileFacts> sent = new LinkedHashMap<>();

    private long sentBytes;
    /** Paths at the target of files that are sent already, because ranks may read the same files. */
    private final Set<String> carried = new HashSet<>();

    private final Backlog early = new Backlog(EARLY_BYTES, Duration.ZERO);
    private volatile SessionListener listener = this::queue;
    private ControlLink link;
    private SourceEnd end;
    private volatile SessionAgent agent;
    private SourcePath path;
    private volatile LinkOutlet outlet;
    private OutgoingFiles files;
    private volatile boolean closed;
    private long railsSinceEpochMs;
    private ControlReconnector controlReconnector;
    private long introducedMs;
    private Checkpointer checkpointer;
    private MemoryWay way = MemoryWay.IMAGES;
    private Optional<String> whyOtherWay = Optional.empty();
    /** The target is lost or has reported a failure. The migration's worker handles that when it is not waiting. */
    private volatile boolean broken;

    private boolean introduced;
    private boolean unwanted;
    private FileLooker looker;
    private FileComparison comparison;
    private BooleanSupplier isCalledOff = () -> false;

    /**
     * @param place place of the target in the plan
     *
     * @param here this node's facts
     * @param tries number of attempts, with this one, that targets accepted
     * @param activity writes of all checkpoints of the attempt
     */
    SourceSession(
            Attempt.MigrationContext context,
            int attempt,
            int tries,
            MigrationPlan plan,
            int place,
            NodeFacts here,
            WriterActivity activity) {
        this.context = context;
        this.service = context.service();
        this.settings = service.settings();
        this.job = context.job();
        this.attempt = attempt;
        this.tries = tries;
        this.plan = plan;
        this.place = place;
        this.here = here;
        this.activity = activity;
        this.checkpointer = job.checkpointer();
        this.directory = context.migrationId() + "." + attempt + (place == 0 ? "" : "." + place);
        this.connector = service.connector(leg().target());
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

    /** Returns the checkpointer for the ranks of this session, in the form that the target accepts. */
    Checkpointer checkpointer() {
        return checkpointer;
    }

    /** Returns the way in which the target accepts the job's memory. */
    MemoryWay way() {
        return way;
    }

    /** Returns why the target does not accept the job's memory in the offered way, or empty if it does. */
    Optional<String> whyOtherWay() {
        return whyOtherWay;
    }

    Path imageDirectory(int rank) {
        return settings.node().mount().resolve(directory).resolve("rank-" + rank);
    }

    /**
     * Connects, and sends the target the request for its ranks.
     *
     * @param after listener for the target's messages after its answer, and for its loss, on the agent's threads
     * @return why the target refuses, or null if it accepts
     */
    String begin(Cancellation cancellation, SessionListener after) throws IOException, InterruptedException {
        Connector.Control control = connector.control();
        link = new ControlLink(
                control.channel(),
                control.version(),
                attempt,
                settings.node().silenceLimit().toNanos());
        LOG.info(
                "control connection to target {}: {}",
                leg().target(),
                control.channel().isEncrypted()
                        ? "encrypted by TLS 1.3"
                        : "not encrypted, because encryption is \"off\" at both ends");
        String unused = settings.authenticator().versions().unusedWith(control.version());
        if (!unused.isEmpty()) {
            LOG.info(
                    "target {} and this service agreed on version {} of the protocol; this service has version {}. Not"
                            + " used in this migration: {}. Remedy: install the same release of ppmr on both nodes",
                    leg().target(),
                    control.version().number(),
                    settings.authenticator().versions(),
                    unused);
        }
        TcpTransport tcp = new TcpTransport(
                deadline -> connector.data(control.keys(), settings.connecting().connections()));
        TransportChoice.Proposal transport = service.transports()
                .propose(connector.target(), tcp, settings.connecting().connectDeadline());
        end = new SourceEnd(service.images().claims(), this::onMessage);
        if (!transport.targetChooses()) {
            path = transport.connect(service.images().pool(), end::onLost);
        }
        agent = new SessionAgent("ppmr-source-session", link, ControlMessage::read, end);
        agent.start();
        // The clock is read now, when everything is connected.
        introducedMs = System.currentTimeMillis();
        sendLong(new ControlMessage.Introduce(here.at(introducedMs), offered()));
        Optional<String> other = whyOtherFiles(cancellation);
        if (other.isPresent()) {
            close();
            return "target " + leg().target() + other.get();
        }
        sendLong(new ControlMessage.Begin(
                context.migrationId(),
                context.secret(),
                job.name(),
                job.checkpointer().name(),
                job.user().uid(),
                job.user().gid(),
                leg().ranks(),
                new ControlMessage.Begin.TransferPlan(
                        service.images().pool().geometry().chunkBytes(),
                        settings.connecting().connections(),
                        transport.transports(),
                        comparison == null ? 0 : comparison.carriedBytes()),
                plan.addresses(),
                place,
                new ControlMessage.Begin.Placement(
                        job.notes().ranks(), plan.map(job.others()).lines()),
                link.version().isBefore(ProtocolVersion.V10) ? "" : FileComparison.kernel()));
        Message answer = awaitAnswer(cancellation);
        boolean isOffer = answer instanceof DataMessage.Offer || answer instanceof DataMessage.OfferedRails;
        if (transport.targetChooses() && isOffer) {
            TransportChoice.Attachment attachment = attach(transport, answer, control);
            path = attachment.path();
            link.send(attachment.message());
            if (path instanceof RailSender rails) {
                rails.open();
            }
            answer = awaitAnswer(cancellation);
            if (answer instanceof DataMessage.Writable writable) {
                path.onWritable(writable);
                answer = awaitAnswer(cancellation);
            }
        }
        if (answer instanceof ControlMessage.Refuse refuse) {
            close();
            return "target " + leg().target() + " refuses: " + refuse.reason();
        }
        if (!(answer instanceof ControlMessage.Accept accept) || path == null) {
            throw new IOException("target " + leg().target() + " answers with " + answer);
        }
        if (checkpointer == job.checkpointer() && context.pages().required()) {
            close();
            return "target " + leg().target() + " requires the job's memory as images, but the configuration here"
                    + " requires pages = \"streamed\". For the reason, run: ppmr doctor --peer";
        }
        outlet = new LinkOutlet(
                link,
                path,
                service.images().pool(),
                service.images().claims(),
                service.metrics().hops());
        // The migration's worker may be waiting for the target itself.
        cancellation.onCancel(outlet::fail);
        context.record().setSentBytes(place, outlet::sentBytes);
        context.record().clock(place, accept.clockNs(), System.nanoTime());
        service.note(new TransactionRecord.PeerNode(
                context.migrationId(),
                attempt,
                leg().target().toString(),
                link.version().number(),
                accept.bootId()));
        show();
        listener = after;
        for (SessionEvent waiting = answers.poll(); waiting != null; waiting = answers.poll()) {
            after.onEvent(waiting);
        }
        after.onEvent(new SessionEvent.MessageReceived(answer, 0));
        return null;
    }

    private TransportChoice.Attachment attach(
            TransportChoice.Proposal transport, Message offer, Connector.Control control)
            throws IOException, InterruptedException {
        if (!(offer instanceof DataMessage.OfferedRails rails)) {
            return transport.attach((DataMessage.Offer) offer, service.images().pool(), end::onLost);
        }
        railsSinceEpochMs = System.currentTimeMillis();
        RailConnector opener = new RailConnector(
                service.images().pool(),
                settings.authenticator(),
                settings.connecting().connectDeadline(),
                control.keys(),
                attempt,
                settings.connecting().connections(),
                service.transports().direct());
        TransportChoice.Attachment attachment =
                transport.attach(rails, opener::open, service.images().pool(), link, end::onLost);
        if (attachment.message().direct()) {
            List<ControlReconnector.ControlRoute> ways = new ArrayList<>();
            ways.add(new ControlReconnector.ControlRoute(
                    service.connector(connector.target(), RESUME_DEADLINE, null),
                    service.transports().noRail()));
            for (TransportChoice.CommonRail rail : service.transports().commonRails(rails)) {
                InetSocketAddress there =
                        new InetSocketAddress(rail.there().host(), rail.there().port());
                ControlReconnector.ControlRoute way = new ControlReconnector.ControlRoute(
                        service.connector(
                                there, RESUME_DEADLINE, rail.here().address().orElse(null)),
                        service.transports().figures(rail.here()));
                if (there.equals(connector.target())) {
                    // The session's own network counts as one route, and is tried after all others.
                    ways.set(0, way);
                } else {
                    ways.add(way);
                }
            }
            controlReconnector = new ControlReconnector(link, control, ways);
            link.setReconnector(controlReconnector);
        }
        return attachment;
    }

    /** Returns the facts of the job for the target. A failed streamed attempt is not repeated as one. */
    private JobFacts offered() {
        JobFacts together = JobProbe.together(context.pages().facts(), leg().ranks());
        JobFacts facts = job.pods().isEmpty() ? together : together.withPods(podsHere());
        return context.pages().inTry(tries, facts);
    }

    /** Returns the pods that move to this target. */
    private Map<Integer, PodFacts> podsHere() {
        boolean answering = !context.originals().isDetached();
        return leg().ranks().stream()
                .collect(Collectors.toMap(
                        rank -> rank, rank -> job.pods().get(rank).answering(answering)));
    }

    private void sendLong(Message message) throws IOException {
        try {
            link.send(message);
        } catch (IllegalArgumentException e) {
            throw new IOException(
                    "the plan of job " + job.name() + " cannot be sent to target " + leg().target() + ": "
                            + e.getMessage() + ". Remedy: move the job as several jobs, or give nodes shorter names",
                    e);
        }
    }

    private void queue(SessionEvent event) throws ProtocolException {
        if (event instanceof SessionEvent.MessageReceived received) {
            early.reserve(received.lengthBytes());
        }
        answers.add(event);
    }

    private void onMessage(SessionEvent event) throws ProtocolException {
        if (event instanceof SessionEvent.MessageReceived received
                && received.message() instanceof ControlMessage.FilesInspected) {
            if (!isFileQueryOpen.compareAndSet(true, false)) {
                throw new ProtocolException("the target answered without a query: it is broken");
            }
            fileAnswers.add(event);
            return;
        }
        if (event instanceof SessionEvent.MessageReceived received
                && received.message() instanceof ControlMessage.FilesPlaced) {
            if (!placed.isEmpty()) {
                throw new ProtocolException("the target placed files twice: it is broken");
            }
            placed.add(event);
            return;
        }
        if (event instanceof SessionEvent.LinkLost) {
            fileAnswers.add(event);
            placed.add(event);
            broken = true;
        }
        listener.onEvent(event);
        LinkOutlet current = outlet;
        if (current != null && event instanceof SessionEvent.MessageReceived received) {
            // The migration's worker may wait for an answer that does not come now. It handles this message after that
            // wait.
            if (received.message() instanceof DataMessage.TransferFailure failed) {
                broken = true;
                current.fail("target " + leg().target() + " fails: " + failed.reason());
            } else if (received.message() instanceof ControlMessage.RolledBack back) {
                broken = true;
                current.fail("target " + leg().target() + " has rolled back: " + back.reason());
            }
        }
    }

    /**
     * Returns, as a suffix to the target's name, why files of the session's ranks prevent the move, or empty if none
     * do.
     */
    private Optional<String> whyOtherFiles(Cancellation cancellation) throws IOException, InterruptedException {
        awaitIntroduction(cancellation);
        if (unwanted || !job.checkpointer().restartNeeds().sameFiles()) {
            return Optional.empty();
        }
        isCalledOff = () -> closed || broken || cancellation.reason().isPresent();
        try {
            looker = FileLooker.start(service.programs(), job.user(), service.digests(), isCalledOff);
            comparison = new FileComparison(
                    job.user(), looker, filesOf(job), this::isOfNode, this::ask, service.processes());
            Optional<String> other =
                    comparison.compare(ofLeg(context.originals().trees()));
            if (other.isEmpty()) {
                other = comparison.whyNotAlone(
                        leg().ranks(), context.originals().trees());
            }
            return other.map(why -> " was not queried, and the job was not stopped: " + why);
        } catch (FileComparison.DeclinedException e) {
            return Optional.of(" refuses: " + e.getMessage());
        } catch (CheckpointException e) {
            cancellation.check();
            throw new IOException(e.getMessage(), e);
        }
    }

    /**
     * Returns the file rules for a job. Files move only with a job whose restart opens them after its image is
     * complete.
     */
    private JobFiles filesOf(Job moved) {
        return moved.checkpointer().readingMode() == ReadingMode.RETAINED
                ? settings.files()
                : settings.files().withoutCarried();
    }

    /**
     * Sends the files of a held rank that move with it, and waits until they are in place. Call it before the rank's
     * image is complete, because its restart opens them then.
     */
    void carry(HeldRank held, Supplier<Map<Integer, List<ProcessIdentity>>> trees)
            throws IOException, CheckpointException, InterruptedException {
        if (comparison == null || settings.files().carry().copy().isEmpty()) {
            return;
        }
        comparison.whileHeld();
        Optional<String> other = comparison.compare(Map.of(held.rank(), held.processes()));
        if (other.isEmpty() && comparison.carries(held.rank())) {
            other = comparison.whyNotAlone(List.of(held.rank()), trees.get());
        }
        if (other.isPresent()) {
            throw new CheckpointException("the rank opened this during the migration: " + other.get());
        }
        List<CarriedFile> files = comparison.carried(held.rank(), held.processes()).stream()
                .filter(file -> carried.add(file.path()))
                .toList();
        if (files.isEmpty()) {
            return;
        }
        if (checkpointer.completionMarkerName().isPresent()) {
            throw new CheckpointException(files.get(0).file() + ", which must move with the job (files.copy), but its"
                    + " memory was being streamed. Remedy: move it again; the next attempt uses images");
        }
        List<Integer> replacing = new ArrayList<>();
        for (int at = 0; at < files.size(); at++) {
            if (files.get(at).replaces()) {
                replacing.add(at);
            }
        }
        send(held.rank(), files, replacing);
    }

    private void send(int rank, List<CarriedFile> files, List<Integer> replacing)
            throws IOException, CheckpointException, InterruptedException {
        long startNs = System.nanoTime();
        OutgoingFile stream;
        try {
            stream = this.files.createCarried(rank);
        } catch (ErrnoException e) {
            throw new IOException("the files of rank " + rank + " cannot be sent: " + e.getMessage(), e);
        }
        send(new ControlMessage.CarriedFiles(
                rank, files.stream().map(CarriedFile::path).toList(), replacing));
        DepartingFiles departing =
                new DepartingFiles(looker, stream, settings.files().carry().copyLimit() - sentBytes);
        FutureTask<Long> sending =
                new FutureTask<>(() -> departing.send(files, settings.limits().checkpointDeadline()));
        Thread thread = new Thread(sending, "ppmr-departing-files");
        thread.setDaemon(true);
        thread.start();
        long bytes = awaitSent(rank, sending);
        sent.putAll(departing.read());
        sentBytes += bytes;
        awaitPlaced(rank);
        LOG.info(
                "rank {}: {} files of this node's own, {} bytes, are on the target in {} ms",
                rank,
                files.size(),
                bytes,
                TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs));
    }

    /**
     * Waits for the files. A write waits for the target, and ends with the attempt, so it does not block the
     * migration's thread.
     */
    private long awaitSent(int rank, FutureTask<Long> sending)
            throws IOException, CheckpointException, InterruptedException {
        while (!isCalledOff.getAsBoolean()) {
            requirePauseLeft(rank);
            try {
                return sending.get(FILES_SLICE_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                LOG.trace("the files of rank {} are under way", rank, e);
            } catch (ExecutionException e) {
                throw new CheckpointException(
                        "rank " + rank + ": " + e.getCause().getMessage(), e.getCause());
            }
        }
        throw new IOException("the files of rank " + rank + " were not sent: the target was lost or failed, or the"
                + " migration was called off");
    }

    /** Returns which file was changed after it was read, or empty if none was. All ranks are stopped by now. */
    private Optional<String> whyNotAsSent() {
        for (Map.Entry<CarriedFile, FileFacts> one : sent.entrySet()) {
            FileLooker.Question question = new FileLooker.Question(
                    one.getKey().file().link(), one.getKey().path());
            try {
                Optional<FileFacts> now =
                        FileFacts.parse(looker.look(List.of(question)).get(0));
                if (now.filter(found -> isAsRead(found, one.getValue())).isEmpty()) {
                    return Optional.of(one.getKey().file()
                            + ", which moves with the rank (files.copy) and was changed after it was read. Remedy:"
                            + " have no other process write to it, or share the folder between both nodes");
                }
            } catch (CheckpointException e) {
                return Optional.of(String.valueOf(e.getMessage()));
            }
        }
        return Optional.empty();
    }

    private static boolean isAsRead(FileFacts now, FileFacts read) {
        return now.inode().equals(read.inode())
                && now.lengthBytes() == read.lengthBytes()
                && now.links() == read.links()
                && now.changed().equals(read.changed());
    }

    /** Throws if the pause budget is used up. The job is stopped, and this thread would otherwise check the budget. */
    private void requirePauseLeft(int rank) throws CheckpointException {
        Duration budget = service.settings().limits().pauseBudget();
        if (!budget.isZero() && context.record().pausedNs() > budget.toNanos()) {
            throw new CheckpointException("the pause budget of " + budget.toSeconds()
                    + " s is used up while the files of rank " + rank + " are sent (files.copy). Remedy: raise"
                    + " pause_budget, reduce the size of those files, or share their folder between both nodes");
        }
    }

    private void awaitPlaced(int rank) throws IOException, CheckpointException, InterruptedException {
        long deadlineNs =
                System.nanoTime() + settings.limits().checkpointDeadline().toNanos();
        SessionEvent answer = null;
        while (answer == null
                && System.nanoTime() - deadlineNs < 0
                && failure() == null
                && !isCalledOff.getAsBoolean()) {
            requirePauseLeft(rank);
            answer = placed.poll(FILES_SLICE_MS, TimeUnit.MILLISECONDS);
        }
        if (!(answer instanceof SessionEvent.MessageReceived received
                && received.message() instanceof ControlMessage.FilesPlaced done
                && done.rank() == rank)) {
            throw new IOException("target " + leg().target() + " has not placed the files of rank " + rank
                    + (failure() == null ? "" : ": " + failure())
                    + ". Remedy: check its log for errors of their filesystem");
        }
    }

    /** Returns false for a pod's own files, which it has in addition to those of the node that it can see. */
    private boolean isOfNode(String path) {
        return job.pods().isEmpty()
                || job.pods().values().stream()
                        .flatMap(pod -> pod.mounts().stream())
                        .anyMatch(mount -> path.startsWith(MountEntry.bytesOf(Path.of(mount)) + "/"));
    }

    private <T> Map<Integer, T> ofLeg(Map<Integer, T> all) {
        Map<Integer, T> own = new TreeMap<>(all);
        own.keySet().retainAll(leg().ranks());
        return own;
    }

    /**
     * Once the ranks are held, compares the files that they opened since, and the lengths of shared files that they
     * write. On any thread, while no other uses it. Returns empty if the copies may continue.
     */
    Optional<String> whyOtherFilesNow(Map<Integer, List<ProcessIdentity>> held)
            throws IOException, CheckpointException, InterruptedException {
        if (comparison == null) {
            return Optional.empty();
        }
        Map<Integer, List<ProcessIdentity>> own = ofLeg(held);
        comparison.whileHeld();
        Optional<String> opened = comparison.compare(own).or(this::whyNotAsSent);
        return opened.isPresent()
                ? opened.map(why -> "the rank opened this during the migration: " + why)
                : comparison.compareLengths(own, () -> FileLooker.flusher(service.programs(), isCalledOff));
    }

    /**
     * Returns the work for a rank once it is stopped: its shared files get the same length at both nodes, and its Unix
     * sockets keep their names. Empty if there is none.
     */
    Optional<WhenStopped> workWhenStopped(int rank) {
        return comparison == null || !(comparison.hasSharedWrites() || comparison.hasNames())
                ? Optional.empty()
                : Optional.of(processes -> {
                    try {
                        comparison.requireLengths(processes, () -> FileLooker.flusher(service.programs(), isCalledOff));
                        service.names(context.migrationId())
                                .keep(attempt, rank, job.user(), comparison.sharedNames(processes));
                    } catch (IOException e) {
                        throw new CheckpointException("the job's files cannot be compared: " + e.getMessage(), e);
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                        throw new CheckpointException("the comparison of the job's files was called off", e);
                    }
                });
    }

    /** Queries the target about files. */
    private ControlMessage.FilesInspected ask(ControlMessage.InspectFiles question, Duration limit)
            throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        isFileQueryOpen.set(true);
        send(question);
        SessionEvent answer = null;
        while (answer == null && System.nanoTime() - deadlineNs < 0 && !isCalledOff.getAsBoolean()) {
            answer = fileAnswers.poll(FILES_SLICE_MS, TimeUnit.MILLISECONDS);
        }
        if (answer instanceof SessionEvent.MessageReceived received
                && received.message() instanceof ControlMessage.FilesInspected found) {
            return found;
        }
        if (answer == null && isCalledOff.getAsBoolean()) {
            throw new IOException("the check of the job's files was called off");
        }
        throw new IOException("target " + leg().target() + " did not answer about the job's files: "
                + (answer instanceof SessionEvent.LinkLost lost ? lost.reason() : "no answer for " + limit)
                + ". Remedy: check whether a filesystem's server does not answer there");
    }

    private void awaitIntroduction(Cancellation cancellation) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + ACCEPT_DEADLINE.toNanos();
        while (!introduced) {
            cancellation.check();
            SessionEvent event = answers.poll(ACCEPT_SLICE_MS, TimeUnit.MILLISECONDS);
            if (event instanceof SessionEvent.MessageReceived received) {
                early.release(early.chargeOf(received.lengthBytes()));
                if (!isBeforeAnswer(received.message())) {
                    throw new IOException("target " + leg().target() + " answers with " + received.message());
                }
            } else if (event != null || System.nanoTime() - deadlineNs > 0) {
                throw new IOException("target " + leg().target() + " does not answer: "
                        + (event instanceof SessionEvent.LinkLost lost
                                ? lost.reason()
                                : "no answer for " + ACCEPT_DEADLINE));
            }
        }
    }

    /** Waits for the target's answer to Begin. The answer to the introduction, and progress, may arrive before it. */
    private Message awaitAnswer(Cancellation cancellation) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + ACCEPT_DEADLINE.toNanos();
        SessionEvent answer;
        do {
            cancellation.check();
            answer = answers.poll(ACCEPT_SLICE_MS, TimeUnit.MILLISECONDS);
            if (answer instanceof SessionEvent.MessageReceived received) {
                early.release(early.chargeOf(received.lengthBytes()));
            }
        } while ((answer == null && System.nanoTime() - deadlineNs < 0)
                || (answer instanceof SessionEvent.MessageReceived received && isBeforeAnswer(received.message())));
        if (!(answer instanceof SessionEvent.MessageReceived received)) {
            throw new IOException("target " + leg().target() + " does not answer: "
                    + (answer instanceof SessionEvent.LinkLost lost
                            ? lost.reason()
                            : "no answer for " + ACCEPT_DEADLINE));
        }
        return received.message();
    }

    private boolean isBeforeAnswer(Message message) {
        if (message instanceof ControlMessage.Introduced introduction) {
            introduced = true;
            unwanted = introduction.findings().stream().anyMatch(finding -> finding.level() == Finding.Level.FAIL);
            JobFacts offer = offered();
            way = introduction.way().compareTo(offer.offer()) < 0 ? introduction.way() : offer.offer();
            if (way == MemoryWay.PRECOPIED) {
                checkpointer =
                        job.checkpointer().precopiedForm(offer.storeBytes()).orElse(checkpointer);
            } else if (way != MemoryWay.IMAGES) {
                checkpointer = job.checkpointer().streamedForm().form().orElse(checkpointer);
            }
            if (way.compareTo(offer.offer()) < 0) {
                whyOtherWay = introduction.findings().stream()
                        .filter(finding -> finding.check().equals(Finding.PAGES))
                        .findFirst()
                        .map(finding -> "target " + leg().target() + " reports: " + finding.sentence())
                        .or(() -> Optional.of("target " + leg().target() + " accepts it only so"));
            }
            List<Finding> findings = new ArrayList<>(introduction.findings());
            findings.add(
                    ClockCheck.finding(introducedMs, introduction.node().clockEpochMs(), System.currentTimeMillis()));
            for (Finding finding : findings) {
                if (finding.level() == Finding.Level.WARN) {
                    LOG.warn("target {}: {}", introduction.node().hostName(), finding.sentence());
                }
            }
            return true;
        }
        return message instanceof DataMessage.Progress;
    }

    /** Returns true if the session's agent, if there is one, works. Any thread; blocks it. */
    boolean responds(long limitNs) {
        SessionAgent current = agent;
        return current == null || current.responds(limitNs);
    }

    private void show() throws IOException {
        JobUser owner = job.checkpointer().imageOwner(job.user());
        try {
            files = new OutgoingFiles(
                    directory,
                    service.images().view().tree(),
                    service.images().pool(),
                    service.images().claims(),
                    outlet,
                    context.keeping().copyOf(attempt),
                    new ImageFailure(job.checkpointer().writesInProcess()),
                    checkpointer,
                    activity,
                    leg().ranks(),
                    owner.uid(),
                    owner.gid());
        } catch (ErrnoException e) {
            throw new IOException("the directories of the images cannot be made: " + e.getMessage(), e);
        }
        context.record().setFiles(place, files);
        end.begin(outlet, files);
        service.images().view().add(directory, files);
    }

    /** Sends a message over the session's link. Throws if the link is gone. */
    void send(Message message) throws IOException {
        if (link == null || closed) {
            throw new IOException("target " + leg().target() + " has not been connected");
        }
        link.send(message);
    }

    /** Sends a message over the session's link if there is room, and never blocks. Throws if the link is gone. */
    boolean offer(Message message) throws IOException {
        if (link == null || closed) {
            throw new IOException("target " + leg().target() + " has not been connected");
        }
        return link.offer(message);
    }

    /**
     * Sends the privileges and open files of a rank's originals, which the target compares with the restored rank. Call
     * it before the rank's image is complete, because the target may vote after that.
     */
    void sendPrivileges(HeldRank held, RightsBounds bounds) throws IOException, CheckpointException {
        String whose = "rank " + held.rank();
        try (ProcessPrivileges rights = job.checkpointer().restoresAsStopped()
                ? ProcessPrivileges.read(whose, held.processes(), bounds)
                : ProcessPrivileges.readOfOthers(whose, held.processes(), bounds)) {
            rights.send(
                    MAX_PAGE_LINES,
                    MAX_PAGE_CHARS,
                    (page, last) -> send(new ControlMessage.OriginalRights(held.rank(), last, page)));
        }
    }

    /** Returns why the images are no longer needed, or null while they are, and before there are any. */
    String failure() {
        return files == null ? null : files.failure();
    }

    /** Ends every write that waits. That write and all later ones fail, or are accepted and discarded. */
    void fail(String reason) {
        if (outlet != null) {
            outlet.fail(reason);
        }
        if (files != null) {
            files.fail(reason);
        }
    }

    /** Makes every write fail after {@link #fail}, even if writes were discarded until now. */
    void refuse() {
        if (files != null) {
            files.refuse();
        }
    }

    /** Closes the transport, so that no thread reads the pool. May be called twice. */
    void stop() {
        if (closed) {
            return;
        }
        closed = true;
        if (looker != null) {
            looker.close();
        }
        fail("the migration is over");
        if (agent != null) {
            agent.stop();
        } else if (link != null) {
            link.close();
        }
        if (path != null) {
            path.close();
        }
        if (path instanceof RailSender rails) {
            long sinceNs = TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis() - railsSinceEpochMs);
            rails.arrivedBytes().forEach((name, bytes) -> noteRail("rail " + name, sinceNs, bytes));
        }
        if (controlReconnector != null) {
            controlReconnector.inUseNs().forEach((name, inUseNs) -> noteRail("control by " + name, inUseNs, 0));
        }
    }

    private void noteRail(String step, long durationNs, long bytes) {
        service.note(new TransactionRecord.StepTimed(
                context.migrationId(),
                attempt,
                step,
                EVERY_RANK,
                leg().target().toString(),
                railsSinceEpochMs,
                durationNs,
                bytes));
    }

    /** Closes everything. May be called twice. */
    void close() {
        stop();
        if (files != null) {
            service.images().view().remove(directory);
            try {
                files.discard();
            } catch (ErrnoException e) {
                LOG.error("the names of a finished migration could not be removed: {}", e.getMessage());
            }
            files = null;
        }
    }
}
