package io.ppmr.cluster;

import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.cli.BuildVersion;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.message.ControllerQuestions;
import io.ppmr.cluster.record.ServiceRecord;
import io.ppmr.cluster.record.SpareNeeds;
import io.ppmr.cluster.zookeeper.TlsFiles;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.linux.HostPort;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.SpareNodes;
import io.ppmr.protocol.control.Finding;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The part of the services for clusters: membership, controllers, and the choice of spare nodes. */
public final class ClusterPart implements ServicePart {
    private static final Logger LOG = LoggerFactory.getLogger(ClusterPart.class);
    private static final String SECTION = "cluster";
    private static final Duration SPARES_LIMIT = Duration.ofSeconds(2);
    private static final Duration CHECK_LIMIT = Duration.ofSeconds(5);
    private static final Duration JOB_LIMIT = Duration.ofSeconds(10);
    /** The time for the plan of a restart, for which the controller queries services. */
    private static final Duration RESTART_LIMIT = Duration.ofSeconds(35);

    @Override
    public String name() {
        return SECTION;
    }

    @Override
    public List<Class<? extends Record>> sections(Side side) {
        return List.of(ClusterKeys.class);
    }

    @Override
    public List<ConfigRole> roles() {
        return List.of(ControllerConfig.ROLE);
    }

    @Override
    public void describe(MeterRegistry meters, String role) {
        if (role.equals(ControllerConfig.ROLE.word())) {
            ControllerMeters.register(meters, null);
        }
    }

    @Override
    public List<Object> commands() {
        return List.of(new ControllerCommand(), new NodesCommand(), new ClusterJobCommand());
    }

    @Override
    public Configured read(ConfigFile file, Side side, Tools tools) {
        ConfigFile.FileSection<ClusterKeys> section = file.section(ClusterKeys.class);
        ClusterKeys keys = section.values();
        if (keys.controllers().filter(List::isEmpty).isPresent()) {
            section.bad("controllers", "is empty: name the controllers, or remove the section");
        }
        keys.zone()
                .filter(zone ->
                        zone.isEmpty() || !ServiceRecord.ZONE.matcher(zone).matches())
                .ifPresent(zone ->
                        section.bad("zone", "'" + zone + "' must have 1 to 32 letters, digits, '.', '_' and '-'"));
        if (keys.controllers().isEmpty() && keys.zone().isPresent()) {
            section.bad("zone", "has no cluster: name the controllers, or remove it");
        }
        return new Membership(keys, keys.tls().files(section));
    }

    /** Returns the release of ppmr as a word. */
    static String release() throws IOException {
        return BuildVersion.version();
    }

    /** Returns this node's host name. */
    private static String hostName() throws IOException {
        return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
    }

    private static String ownName() {
        try {
            return hostName();
        } catch (IOException e) {
            LOG.warn("this node's name cannot be read: {}", e.getMessage());
            return "";
        }
    }

    /** The cluster of a configuration file. */
    private record Membership(ClusterKeys keys, Optional<TlsFiles> tls) implements Configured {
        private boolean isMember() {
            return keys.controllers().filter(all -> !all.isEmpty()).isPresent();
        }

        private ControllerQuestions questions(PeerAuthenticator key) {
            return new ControllerQuestions(keys.controllers().orElseThrow(), key);
        }

        @Override
        public Optional<SpareNodes.SpareFinder> spares(PeerAuthenticator key) {
            return isMember()
                    ? Optional.of(new LeastLoaded(questions(key), keys.zone().orElse("")))
                    : Optional.empty();
        }

        @Override
        public List<Finding> findings(PeerAuthenticator key) {
            if (!isMember()) {
                return List.of();
            }
            try {
                ClusterMessage.JoinAnswer joined = questions(key).join(hostName(), "doctor", CHECK_LIMIT);
                Optional<String> otherTls = ClusterMember.whyOtherTls(joined, tls);
                if (otherTls.isPresent()) {
                    return List.of(Finding.fail(SECTION, otherTls.get(), ""));
                }
                return List.of(Finding.ok(
                        SECTION,
                        "a controller answers; cluster " + joined.clusterId() + ", servers "
                                + String.join(", ", joined.servers())));
            } catch (IOException | RequestException e) {
                return List.of(Finding.fail(
                        SECTION,
                        "this node cannot join its cluster: " + e.getMessage(),
                        "start a controller, give this node the cluster's key_file, or correct cluster.controllers"));
            }
        }

        @Override
        public Running open(Node node) {
            return isMember() ? new Joining(this, node.key(), questions(node.key())) : new Running() {};
        }
    }

    /** Requests spare nodes from the active controller. */
    private record LeastLoaded(ControllerQuestions questions, String zone) implements SpareNodes.SpareFinder {
        @Override
        public List<InetSocketAddress> find(SpareNodes.Needs job, SpareNodes.Zone where) throws IOException {
            SpareNeeds needs = new SpareNeeds(
                    hostName(),
                    zone,
                    SpareNeeds.Where.valueOf(where.name()),
                    job.checkpointer(),
                    job.memoryBytes(),
                    job.stagingBytes());
            try {
                return questions
                        .ask(new ClusterMessage.FindSpares(needs), ClusterMessage.Spares.class, SPARES_LIMIT)
                        .addresses()
                        .stream()
                        .map(HostPort::parse)
                        .flatMap(Optional::stream)
                        .map(HostPort::lookUp)
                        .toList();
            } catch (RequestException e) {
                throw new IOException(e.getMessage(), e);
            }
        }
    }

    /** The membership of a service. */
    private static final class Joining implements Running {
        private final Membership membership;
        private final PeerAuthenticator key;
        private final ControllerQuestions questions;
        private volatile ClusterMember member;

        private Joining(Membership membership, PeerAuthenticator key, ControllerQuestions questions) {
            this.membership = membership;
            this.key = key;
            this.questions = questions;
        }

        @Override
        public void serve(Ready service) throws IOException {
            member = new ClusterMember(membership.keys(), membership.tls(), key, questions, service);
        }

        @Override
        public Optional<JobSource> jobs() {
            return Optional.of(new MovingJobs(() -> Optional.ofNullable(member)));
        }

        @Override
        public Map<String, ControlRequest<?>> requests() {
            Map<String, ControlRequest<?>> requests = new HashMap<>(NodeRequests.of(
                    question -> questions.ask(question, ClusterMessage.NodeList.class, NodeRequests.LIMIT)));
            requests.putAll(JobRequests.of(
                    question -> ClusterMember.ask(
                            questions,
                            question,
                            question instanceof JobQuestion.OrderRestart ? RESTART_LIMIT : JOB_LIMIT),
                    ownName(),
                    job -> Optional.ofNullable(member).flatMap(one -> one.jobs().refusal(job)),
                    Optional.empty()));
            return requests;
        }

        @Override
        public void end() {
            try {
                if (member != null) {
                    member.close();
                }
            } catch (IOException e) {
                LOG.warn("the service's membership in its cluster did not end well: {}", e.getMessage());
            }
        }
    }
}
