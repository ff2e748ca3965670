package io.ppmr.cluster;

import io.ppmr.cluster.job.JobMembers;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.message.ControllerQuestions;
import io.ppmr.cluster.message.Prober;
import io.ppmr.cluster.message.QuestionListener;
import io.ppmr.cluster.record.ServiceName;
import io.ppmr.cluster.record.ServiceRecord;
import io.ppmr.cluster.zookeeper.ClusterUser;
import io.ppmr.cluster.zookeeper.ServiceSession;
import io.ppmr.cluster.zookeeper.ServiceSession.Access;
import io.ppmr.cluster.zookeeper.ServiceSession.Event;
import io.ppmr.cluster.zookeeper.TlsFiles;
import io.ppmr.daemon.part.ServicePart.Ready;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.node.NodeGauge.NodeFigures;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.DatagramChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A service's membership in a cluster: its session with the ensemble, its record there, and its answers to questions of
 * the active controller. It joins as soon as a controller answers, and again whenever its session ended. A service
 * works without it. It has one thread; closed by its owner.
 */
final class ClusterMember implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ClusterMember.class);
    private static final Duration JOIN_LIMIT = Duration.ofSeconds(5);
    private static final Duration CONNECT_LIMIT = Duration.ofSeconds(15);
    /** The time limit of the end of an earlier session. Otherwise it ends by its time-out. */
    private static final Duration END_LIMIT = Duration.ofSeconds(5);
    /** The interval at which the figures are compared with the record. */
    private static final Duration REFRESH = Duration.ofMinutes(1);

    private static final Duration JOB_AGAIN = Duration.ofSeconds(2);
    private static final Duration JOB_LIMIT = Duration.ofSeconds(10);
    private static final Duration AGAIN = Duration.ofSeconds(2);
    private static final Duration AGAIN_LATER = Duration.ofSeconds(5);
    private static final Duration NAME_TAKEN_AGAIN = Duration.ofSeconds(2);
    /** Limits the connections that peers can have this service open. */
    private static final int WITNESS_PROBES = 256;

    private static final Semaphore PROBING = new Semaphore(2);
    private static final int DIGEST_BYTES = 4;

    private final ClusterKeys keys;
    private final Ready service;
    private final ControllerQuestions controllers;
    private final QuestionListener listener;
    private final ClusterUser user;
    private final Optional<TlsFiles> tls;
    private final JobMembers jobs;
    private final OffWatch off;
    private final RareLog log = new RareLog(LOG::warn);
    private final Thread thread;
    private volatile Optional<ServiceSession> present = Optional.empty();
    private final CountDownLatch end = new CountDownLatch(1);
    private volatile boolean ended;

    /** Starts to join. */
    ClusterMember(
            ClusterKeys keys,
            Optional<TlsFiles> tls,
            PeerAuthenticator key,
            ControllerQuestions controllers,
            Ready service)
            throws IOException {
        this.keys = keys;
        this.service = service;
        this.controllers = controllers;
        this.user = ClusterUser.service(key);
        this.tls = tls;
        this.jobs = new JobMembers(
                service.gauge().figures().host(), service.jobs(), service.journal(), this::askController);
        this.listener = new QuestionListener(keys.listen(), key, this::answer);
        service.jobs().members().onChange(this::podsChanged);
        this.off = new OffWatch(service.peers(), controllers);
        this.thread = LogContext.thread(this::run, "ppmr-cluster");
        thread.start();
    }

    /** Returns the jobs over several nodes of this service. */
    JobMembers jobs() {
        return jobs;
    }

    /** Has the jobs of this service read again. */
    void podsChanged() {
        present.ifPresent(ServiceSession::wake);
    }

    private JobQuestion.Answer askController(JobQuestion question) throws IOException, RequestException {
        return ask(controllers, question, JOB_LIMIT);
    }

    /** Sends a question about jobs to the active controller. */
    static JobQuestion.Answer ask(ControllerQuestions controllers, JobQuestion question, Duration limit)
            throws IOException, RequestException {
        ClusterMessage.JobsAnswer answer = controllers.ask(
                new ClusterMessage.AskJobs(question.kind(), question.text()), ClusterMessage.JobsAnswer.class, limit);
        return JobQuestion.Answer.parse(answer.text())
                .orElseThrow(() -> new IOException("a controller gave an answer of another form. Remedy: install the"
                        + " same release of ppmr there"));
    }

    /** Answers a controller: about jobs, or which of these nodes answer this one. */
    private ClusterMessage answer(ClusterMessage question, String peer) {
        if (question instanceof ClusterMessage.AskJobs ask) {
            return JobQuestion.parse(ask.kind(), ask.text())
                    .<ClusterMessage>map(parsed ->
                            new ClusterMessage.JobsAnswer(jobs.answer(parsed).text()))
                    .orElse(new ClusterMessage.QuestionRefused("a question about jobs has an invalid form"));
        }
        if (question instanceof ClusterMessage.ProbeNodes probe
                && probe.addresses().size() > WITNESS_PROBES) {
            return new ClusterMessage.QuestionRefused("more than " + WITNESS_PROBES + " nodes in one question");
        }
        if (question instanceof ClusterMessage.ProbeNodes probe) {
            if (!PROBING.tryAcquire()) {
                return new ClusterMessage.QuestionRefused("this node probes others already: try again");
            }
            try {
                return new ClusterMessage.NodesProbed(
                        List.copyOf(new Prober(WITNESS_PROBES).answering(probe.addresses())));
            } catch (IOException e) {
                return new ClusterMessage.QuestionRefused("this node cannot probe others: " + e.getMessage());
            } finally {
                PROBING.release();
            }
        }
        return new ClusterMessage.QuestionRefused(
                "a service does not answer " + question.getClass().getSimpleName() + ": this is no controller");
    }

    private void run() {
        Duration pause = AGAIN;
        while (!ended) {
            try {
                belong();
                pause = AGAIN;
            } catch (IOException | RequestException e) {
                log.write("not in the cluster", "this service is not in the cluster: " + e.getMessage());
            } catch (RuntimeException e) {
                log.write("defect", "this service is not in the cluster, for a defect of it: " + e);
                LOG.debug("a defect", e);
            } catch (InterruptedException e) {
                // Only the end of the service interrupts this thread.
                return;
            }
            try {
                // Thousands of services that lost one controller must not return at one moment.
                long jitterMs = ThreadLocalRandom.current().nextLong(pause.toMillis() / 2 + 1);
                if (end.await(pause.toMillis() / 2 + jitterMs, TimeUnit.MILLISECONDS)) {
                    return;
                }
            } catch (InterruptedException e) {
                return;
            }
            pause = pause.compareTo(AGAIN_LATER) < 0 ? pause.multipliedBy(2) : AGAIN_LATER;
        }
    }

    /** Joins, and keeps the record until the session ended. */
    private void belong() throws IOException, RequestException, InterruptedException {
        NodeFigures figures = service.gauge().figures();
        String role = service.side() == Side.SOURCE ? "source" : "target";
        ServiceName name = new ServiceName(figures.host(), role);
        if (ServiceName.parse(name.toString()).isEmpty()) {
            throw new IOException("the host name '" + figures.host() + "' has other characters than letters, digits,"
                    + " '.' and '-'. Remedy: hostnamectl set-hostname NAME");
        }
        ClusterMessage.JoinAnswer joined = controllers.join(name.host(), role, JOIN_LIMIT);
        Optional<ClusterNote> note = ClusterNote.read(service.journal());
        requireSameCluster(note, joined);
        requireSameTls(joined);
        String own = needsOwnAddress() ? addressTowards(joined.servers()) : "";
        Access access = new Access(joined.servers(), user, keys.session(), tls);
        endEarlierSession(note, joined.clusterId(), access);
        try (ServiceSession session = ServiceSession.begin(access)) {
            session.awaitConnection(CONNECT_LIMIT);
            new ClusterNote(joined.clusterId(), Optional.of(session.credentials())).write(service.journal());
            present = Optional.of(session);
            jobs.joined();
            session.wake();
            keepRecord(session, name, joined, own);
        } finally {
            present = Optional.empty();
        }
    }

    private void requireSameCluster(Optional<ClusterNote> note, ClusterMessage.JoinAnswer joined) throws IOException {
        if (note.isPresent() && !note.get().clusterId().equals(joined.clusterId())) {
            throw new IOException("the controllers manage cluster " + joined.clusterId()
                    + ", and this service belongs to cluster " + note.get().clusterId()
                    + ". Remedy: if the controllers lost their disk, start one with ppmr controller"
                    + " --config /etc/ppmr/controller.toml --adopt "
                    + note.get().clusterId() + "; if this node moves to another cluster, remove "
                    + service.journal().resolve("cluster"));
        }
    }

    private void requireSameTls(ClusterMessage.JoinAnswer joined) throws IOException {
        Optional<String> why = whyOtherTls(joined, tls);
        if (why.isPresent()) {
            throw new IOException(why.get());
        }
    }

    /** Returns the reason if a service with these files cannot connect to the ensemble; empty if it can. */
    static Optional<String> whyOtherTls(ClusterMessage.JoinAnswer joined, Optional<TlsFiles> tls) {
        if (joined.tls() == tls.isPresent()) {
            return Optional.empty();
        }
        return Optional.of(
                joined.tls()
                        ? "the ensemble's servers accept TLS alone. Remedy: name cluster.tls and"
                                + " cluster.tls_authorities in this service's file"
                        : "the ensemble's servers do not use TLS, and this service does. Remedy: name tls in the"
                                + " controllers' files, or remove cluster.tls here");
    }

    private void endEarlierSession(Optional<ClusterNote> note, String clusterId, Access access)
            throws IOException, InterruptedException {
        if (note.isPresent() && note.get().session().isPresent()) {
            try {
                ServiceSession.end(access, note.get().session().get(), END_LIMIT);
            } catch (IOException e) {
                LOG.info("the session of this service's last run ends by its time limit: {}", e.getMessage());
            }
            new ClusterNote(clusterId, Optional.empty()).write(service.journal());
        }
    }

    private void keepRecord(ServiceSession session, ServiceName name, ClusterMessage.JoinAnswer joined, String own)
            throws IOException, InterruptedException {
        ServiceRecord written = record(own);
        long takenSinceNs = System.nanoTime();
        boolean isThere = false;
        boolean isJobDue = true;
        while (!ended) {
            if (!isThere) {
                isThere = session.write(name, written.encode(), user, joined.controllers());
                if (isThere) {
                    LOG.info("this service is in cluster {} as {}", joined.clusterId(), name);
                } else {
                    noteTaken(name, System.nanoTime() - takenSinceNs);
                }
            }
            Optional<Event> event = session.await(!isThere ? NAME_TAKEN_AGAIN : isJobDue ? JOB_AGAIN : REFRESH);
            if (isJobDue || event.filter(Event.JOB_CHANGED::equals).isPresent() || (event.isEmpty() && isDue())) {
                isJobDue = !isThere || !refreshJobs(session);
            }
            if (event.isEmpty() && isThere) {
                ServiceRecord now = record(own);
                if (now.differsFrom(written)) {
                    written = now;
                    isThere = session.write(name, written.encode(), user, joined.controllers());
                }
            } else if (event.isPresent()) {
                switch (event.get()) {
                    case EXPIRED -> throw new IOException("the session with the ensemble has expired");
                    case REFUSED -> throw new IOException("the ensemble refuses this service's key");
                    // ZooKeeper's client connects again, or the session expires.
                    case DISCONNECTED -> LOG.debug("the connection to the ensemble is lost");
                    // A write of its own is such an event, too. Only a record that is gone is written again.
                    case CONNECTED, RECORD_CHANGED -> isThere = session.holds(name);
                    // The jobs were read again above.
                    case JOB_CHANGED -> LOG.trace("a job has changed");
                }
            }
        }
    }

    /** Compares the pods of this node with those that are registered. */
    private boolean isDue() {
        try {
            return jobs.isDue();
        } catch (IOException e) {
            log.write("jobs", "the pods of this node are not known: " + e.getMessage());
            return true;
        }
    }

    /** Reads the records of jobs again. Returns false if that must be done again soon. */
    private boolean refreshJobs(ServiceSession session) throws InterruptedException {
        try {
            return jobs.refresh(session);
        } catch (IOException | RuntimeException e) {
            log.write("jobs", "jobs over several nodes: " + e.getMessage());
            return false;
        }
    }

    /** A record of this name may be this service's own, of a run whose session ends by its time limit. */
    private void noteTaken(ServiceName name, long sinceNs) {
        if (sinceNs > keys.session().multipliedBy(2).toNanos()) {
            log.write(
                    "taken",
                    "another node named " + name.host() + " is in the cluster with a " + name.role()
                            + ", so this one is refused. Remedy: give each node a name of its own");
        }
    }

    private ServiceRecord record(String own) throws IOException {
        NodeFigures figures = service.gauge().figures();
        String bootId =
                Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip();
        return new ServiceRecord(
                bootId,
                service.listen().map(at -> address(at, own)).orElse(""),
                address(listener.address(), own),
                keys.zone().orElse(""),
                ClusterPart.release(),
                figures.memoryBytes(),
                figures.stagingBytes(),
                figures.places(),
                figures.load(),
                figures.tools(),
                digest(figures.cpuFeatures()),
                figures.unusable());
    }

    private static String digest(List<String> features) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256")
                    .digest(String.join(" ", features).getBytes(StandardCharsets.US_ASCII));
            return HexFormat.of().formatHex(Arrays.copyOf(digest, DIGEST_BYTES));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("SHA-256 is missing in this JDK, though every JDK must have it", e);
        }
    }

    /** Returns whether a service listens on all addresses of this node, of which its record must name one. */
    private boolean needsOwnAddress() {
        return listener.address().getAddress().isAnyLocalAddress()
                || service.listen()
                        .filter(at -> at.getAddress().isAnyLocalAddress())
                        .isPresent();
    }

    /** Returns an address as other nodes reach it: the wildcard address becomes this node's own. */
    private static String address(InetSocketAddress bound, String own) {
        String host = bound.getAddress().isAnyLocalAddress()
                ? own
                : bound.getAddress().getHostAddress();
        return ControllerConfig.text(host, bound.getPort());
    }

    /**
     * Returns this node's address on the way to the ensemble. A datagram socket finds it without sending. A loopback
     * address is of no use to other nodes, unless the servers themselves are named by one.
     */
    private static String addressTowards(List<String> servers) throws IOException {
        for (String server : servers) {
            Optional<InetSocketAddress> peer = HostPort.parse(server).map(HostPort::lookUp);
            if (peer.isPresent() && !peer.get().isUnresolved()) {
                try (DatagramChannel channel = DatagramChannel.open()) {
                    channel.connect(peer.get());
                    InetAddress own = ((InetSocketAddress) channel.getLocalAddress()).getAddress();
                    if (!own.isLoopbackAddress() || server.startsWith("127.") || server.startsWith("[::1]")) {
                        return own.getHostAddress();
                    }
                }
            }
        }
        throw new IOException("no server of the ensemble leads to an address of this node: "
                + String.join(", ", servers) + ". Remedy: name an address in cluster.listen, or give the controller's"
                + " node a name that is not its loopback address");
    }

    /** Leaves the cluster: the record goes with the session. */
    @Override
    public void close() throws IOException {
        ended = true;
        end.countDown();
        try {
            jobs.end();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        thread.interrupt();
        off.close();
        listener.close();
        try {
            thread.join(END_LIMIT.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
