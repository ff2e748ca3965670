package io.ppmr.cluster;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.cluster.controller.Controller;
import io.ppmr.cluster.controller.NodeFencing;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.message.ControllerQuestions;
import io.ppmr.cluster.message.QuestionListener;
import io.ppmr.cluster.zookeeper.ClusterUser;
import io.ppmr.cluster.zookeeper.ControllerAccess;
import io.ppmr.cluster.zookeeper.ControllerStore;
import io.ppmr.cluster.zookeeper.Ensemble;
import io.ppmr.cluster.zookeeper.EnsembleCheck;
import io.ppmr.cluster.zookeeper.EnsembleSettings;
import io.ppmr.daemon.control.ControlProtocol;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlServer;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.daemon.metrics.MetricsEndpoint;
import io.ppmr.daemon.service.ProcessSignals;
import io.ppmr.daemon.service.Supervisor;
import io.ppmr.daemon.service.Watchdog;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.LibC;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process of a controller, from its start until SIGTERM or SIGINT: the ensemble's server, if the cluster has its
 * own, the controller, its listener for questions, and its control socket. The process's main thread runs it.
 */
final class ControllerProcess {
    private static final Logger LOG = LoggerFactory.getLogger(ControllerProcess.class);
    private static final int FOR_OWNER_ALONE = 077;
    private static final Duration CONNECT_STEP = Duration.ofSeconds(1);
    private static final Duration CHECK_LIMIT = Duration.ofSeconds(5);
    /** The time for the plan of a recovery, for which services are asked. */
    private static final Duration JOB_LIMIT = Duration.ofSeconds(35);

    private final ControllerConfig config;
    private final Optional<String> adopted;
    private final RareLog log = new RareLog(LOG::info);
    private final CountDownLatch end = new CountDownLatch(1);

    /** @param adopted the name of the cluster that an empty ensemble gets, or empty for a new one */
    ControllerProcess(ControllerConfig config, Optional<String> adopted) {
        this.config = config;
        this.adopted = adopted;
    }

    /** Runs until a signal ends it. Calls {@code ready} when it answers questions. */
    void run(Runnable ready) throws IOException, InterruptedException {
        LibC.CALLS.umask(FOR_OWNER_ALONE);
        ProcessSignals.on("TERM", end::countDown);
        ProcessSignals.on("INT", end::countDown);
        MeterRegistry meters = config.metrics().isPresent() ? MetricsEndpoint.registry() : new SimpleMeterRegistry();
        ControllerAccess access = config.ensembleAccess();
        Optional<EnsembleSettings> own = config.ownServer();
        try (MetricsEndpoint shown = MetricsEndpoint.of(config.metrics(), meters);
                Watchdog watchdog = new Watchdog(Supervisor.of(System.getenv()));
                Ensemble ensemble = own.isPresent()
                        ? Ensemble.start(own.get(), access.users(), ClusterUser.member(config.controllerKey()))
                        : null;
                Controller controller = new Controller(new Controller.ControllerSettings(
                        config.key(),
                        config.keys().ensemble().session(),
                        config.keys().probeLimit(),
                        config.checkpoints().limits(),
                        config.fence().map(this::fencing)));
                ControllerStore store = new ControllerStore(
                        access,
                        ControllerConfig.text(
                                config.host(), config.keys().listen().getPort()),
                        controller)) {
            ControllerMeters.register(meters, controller);
            if (!connect(store)) {
                return;
            }
            String fresh = adopted.orElseGet(() -> UUID.randomUUID().toString());
            Optional<String> prepared = prepare(store, fresh, own.isPresent());
            if (prepared.isEmpty()) {
                return;
            }
            String id = prepared.get();
            requireAdopted(id);
            controller.start(
                    store,
                    new Controller.Entrance(
                            id,
                            access.servers(),
                            List.of(access.user().name()),
                            access.tls().isPresent()));
            try (QuestionListener questions =
                            new QuestionListener(config.keys().listen(), config.key(), controller::answer);
                    ControlServer control =
                            new ControlServer(config.keys().controlSocket(), config.access(), requests(controller))) {
                LOG.info("controller of cluster {} answers questions at {}", id, questions.address());
                ProcessSignals.on("USR1", () -> LOG.info("state: {}", controller.summary()));
                watchdog.ready(limit -> complaint(limit, controller, questions, control), Optional::empty);
                ready.run();
                end.await();
                LOG.info("received a signal to end");
                watchdog.stopping();
            }
        }
    }

    private NodeFencing fencing(Fence command) {
        return new NodeFencing(
                command,
                config.mostFences(),
                config.keys().ensemble().data().resolve("fence"),
                NativePrograms.fromSystemProperty());
    }

    /** Waits for the ensemble, of which a majority must run. Returns false if a signal ends the process first. */
    private boolean connect(ControllerStore store) throws InterruptedException {
        boolean isConnected = store.connect(CONNECT_STEP);
        while (!isConnected && end.getCount() > 0) {
            LOG.info(
                    "waiting for a majority of the ensemble{}",
                    config.tls().isPresent() ? " (if it runs, compare the certificates: names and authorities)" : "");
            isConnected = store.awaitConnection(CONNECT_STEP.multipliedBy(5));
        }
        return isConnected;
    }

    /** Makes the cluster's records when a majority takes them. Returns empty if a signal ends the process first. */
    private Optional<String> prepare(ControllerStore store, String fresh, boolean own)
            throws IOException, InterruptedException {
        while (true) {
            try {
                if (own) {
                    return Optional.of(store.prepare(fresh, true));
                }
                EnsembleCheck check = new EnsembleCheck(config.ensembleAccess(), CHECK_LIMIT);
                warn("they are not checked", check.requireOwn());
                String id = store.prepare(fresh, false);
                warn("it is unknown if others can read the records there", check.requireClosed());
                return Optional.of(id);
            } catch (ControllerStore.UnreachableException e) {
                log.write("majority", "waiting for a majority of the ensemble: " + e.getMessage());
            }
            if (end.await(CONNECT_STEP.toMillis(), TimeUnit.MILLISECONDS)) {
                return Optional.empty();
            }
        }
    }

    private static void warn(String what, List<String> servers) {
        if (!servers.isEmpty()) {
            LOG.warn("servers {} of the ensemble do not answer: {}", String.join(", ", servers), what);
        }
    }

    private void requireAdopted(String id) throws IOException {
        if (adopted.isPresent() && !adopted.get().equals(id)) {
            throw new IOException("the ensemble has cluster " + id + " already, so it cannot adopt "
                    + adopted.get() + ". Remedy: start the controller without --adopt, or with an empty "
                    + config.keys().ensemble().data());
        }
    }

    private static Optional<String> complaint(
            Duration limit, Controller controller, QuestionListener questions, ControlServer control)
            throws InterruptedException {
        Optional<String> complaint = controller.complaint(limit);
        if (complaint.isEmpty() && !questions.responds(limit)) {
            complaint = Optional.of("the accept thread is stuck at " + questions.address() + " for " + limit);
        }
        return complaint.isPresent() ? complaint : control.complaint(limit);
    }

    /** Answers a question about jobs, here or at the active controller. */
    private JobQuestion.Answer askJobs(Controller controller, JobQuestion question)
            throws IOException, RequestException {
        ClusterMessage.AskJobs ask = new ClusterMessage.AskJobs(question.kind(), question.text());
        try {
            ClusterMessage answer = controller.answer(ask, "");
            if (answer instanceof ClusterMessage.NotActive other) {
                answer = new ControllerQuestions(
                                HostPort.parse(other.active()).map(HostPort::unresolved).stream()
                                        .toList(),
                                config.key())
                        .ask(ask, ClusterMessage.JobsAnswer.class, JOB_LIMIT);
            }
            if (answer instanceof ClusterMessage.QuestionRefused refused) {
                throw new RequestException(refused.reason());
            }
            return JobQuestion.Answer.parse(((ClusterMessage.JobsAnswer) answer).text())
                    .orElseThrow(() -> new IOException("the active controller gave an answer of another form"));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("the controller ends", e);
        }
    }

    private Map<String, ControlRequest<?>> requests(Controller controller) {
        Map<String, ControlRequest<?>> requests = new HashMap<>(NodeRequests.of(question -> {
            try {
                ClusterMessage answer = controller.answer(question, "");
                if (answer instanceof ClusterMessage.NotActive other
                        && !other.active().isEmpty()) {
                    return new ControllerQuestions(
                                    List.of(HostPort.parse(other.active())
                                            .orElseThrow()
                                            .unresolved()),
                                    config.key())
                            .ask(question, ClusterMessage.NodeList.class, NodeRequests.LIMIT);
                }
                return answer;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IOException("the controller ends", e);
            }
        }));
        requests.putAll(NodeRequests.changes(controller));
        requests.putAll(JobRequests.of(
                question -> askJobs(controller, question),
                "",
                job -> Optional.empty(),
                Optional.of(controller::turnOff)));
        requests.put(
                ControlProtocol.STATUS,
                ControlRequest.status(() -> new ControlStatus(
                        "controller",
                        false,
                        null,
                        null,
                        null,
                        null,
                        null,
                        controller.summary().toLowerCase(Locale.ROOT),
                        List.of(),
                        List.of(),
                        null,
                        null)));
        return requests;
    }
}
