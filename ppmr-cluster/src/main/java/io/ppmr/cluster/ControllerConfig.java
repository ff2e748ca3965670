package io.ppmr.cluster;

import io.ppmr.checkpoint.Fence;
import io.ppmr.cluster.job.CheckpointBudget;
import io.ppmr.cluster.job.JobTable;
import io.ppmr.cluster.zookeeper.ClusterUser;
import io.ppmr.cluster.zookeeper.ControllerAccess;
import io.ppmr.cluster.zookeeper.EnsembleSettings;
import io.ppmr.cluster.zookeeper.TlsFiles;
import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.ServiceKeys;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.PreSharedKey;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;

/**
 * The configuration of a controller, with its keys. Immutable.
 *
 * @param keys the keys of its file
 * @param key the key of all services
 * @param controllerKey the key of the controllers alone
 * @param tls the files for TLS with the ensemble, or empty for connections without it
 * @param access the access rights to the control socket
 * @param metrics the address of the metrics endpoint, or empty for none
 * @param checkpoints the checkpoints of jobs over several nodes
 * @param fence the command that switches lost nodes off, or empty for none
 * @param mostFences how many fences begin within an hour at most
 */
public record ControllerConfig(
        ControllerKeys keys,
        PreSharedKey key,
        PreSharedKey controllerKey,
        Optional<TlsFiles> tls,
        ControlAccess access,
        Optional<InetSocketAddress> metrics,
        CheckpointKeys checkpoints,
        Optional<Fence> fence,
        int mostFences) {
    static final ConfigRole ROLE = new ConfigRole(
            "controller",
            "controller_key_file",
            ControllerKeys.class,
            List.of(ServiceKeys.MetricsKeys.class, CheckpointKeys.class, NodeFenceKeys.class),
            ControllerConfig::read,
            Optional.of(ControllerCheck::findings));

    private static final int MOST_MEMBERS = 5;
    /** ZooKeeper's limits of a session, in ticks. */
    private static final int SESSION_TICKS = 2;

    /** The keys of its file. */
    @Section(doc = "The controller itself.")
    record ControllerKeys(
            @Key(
                    doc = "the address and the port on which the services send questions. Services connect to this"
                            + " address, or to this node's name if it is 0.0.0.0",
                    example = "control-1:7413")
            InetSocketAddress listen,

            @Key(doc = "the file with the shared key of all nodes, mode 0600 (ppmr keygen)", example = "/etc/ppmr/key")
            Path keyFile,

            @Key(
                    doc = "the file with a second key, which only the controllers have, mode 0600 (ppmr keygen)",
                    example = "/etc/ppmr/controller-key")
            Path controllerKeyFile,

            @Key(
                    value = "control",
                    doc = "the protection of connections between services, the same on all nodes. control: control"
                            + " connections use TLS 1.3 with the shared key; chunks are not encrypted. off: nothing is"
                            + " encrypted, as in releases before 0.3.0",
                    example = "off")
            Encryption encryption,

            EnsembleKeys ensemble,

            @Key(value = "2000", doc = "how many nodes are probed at once", example = "1000", least = 1, most = 10_000)
            int probeLimit,

            @Key(
                    value = "/run/ppmr/controller.sock",
                    doc = "the Unix socket for ppmr nodes and status; at most 100 characters",
                    example = "/run/ppmr/control.sock")
            Path controlSocket,

            ServiceKeys.ControlKeys control)
            implements ServiceKeys.ControlledTop {}

    /** The keys of the ensemble. */
    record EnsembleKeys(
            @Key(
                    doc = "the servers of the site's own ZooKeeper, each HOST:PORT. Default: the controller runs a"
                            + " server"
                            + " itself",
                    example = "[\"zk1:2181\", \"zk2:2181\", \"zk3:2181\"]")
            Optional<List<InetSocketAddress>> servers,

            @Key(
                    doc = "the hosts of all controllers, three or five, in the same order in each file. Default: this"
                            + " controller alone",
                    example = "[\"control-1\", \"control-2\", \"control-3\"]")
            Optional<List<String>> members,

            @Key(doc = "the number of this controller among the members, from 1", example = "2", least = 1, most = 5)
            Optional<Integer> me,

            @Key(
                    value = "7414",
                    doc = "the port of the controller's own server for services and controllers",
                    example = "2181",
                    least = 1,
                    most = 65_535)
            int clientPort,

            @Key(
                    value = "7415",
                    doc = "the port on which the members send to their leader",
                    example = "2888",
                    least = 1,
                    most = 65_535)
            int quorumPort,

            @Key(
                    value = "7416",
                    doc = "the port on which the members elect their leader",
                    example = "3888",
                    least = 1,
                    most = 65_535)
            int electionPort,

            @Key(
                    value = "/var/lib/ppmr/controller",
                    doc = "the directory of the server's transaction log, on a local disk",
                    example = "/local/ppmr/controller")
            Path data,

            @Key(value = "2s", doc = "the unit of the server's time limits", example = "1s")
            Duration tick,

            @Key(
                    value = "20s",
                    doc = "how long a controller may be silent until another one becomes active",
                    example = "10s")
            Duration session,

            TlsKeys tls) {}

    /** The keys of checkpoints of jobs over several nodes. */
    @Section(name = "checkpoints", doc = "Checkpoints of [jobs over several nodes](../admin/job-checkpoints.md)")
    record CheckpointKeys(
            @Key(value = "2", doc = "how many sets of a job are kept", example = "3", least = 1, most = 16)
            int keep,

            @Key(
                    value = "60s",
                    doc = "how long a node holds its pods until all nodes hold theirs. After that time the"
                            + " checkpoint becomes void, and the job continues",
                    example = "30s")
            Duration holdLimit,

            @Key(
                    value = "30m",
                    doc = "how long the images of a checkpoint may take to reach the disks, and a restart to restore"
                            + " all pods",
                    example = "10m")
            Duration stepLimit,

            @Key(
                    value = "1%",
                    doc = "the part of a job's time in which regular checkpoints may hold it, from 0.1% to 50%",
                    example = "5%")
            String overhead,

            @Key(
                    doc = "the mean time between failures of one node, for intervals that controllers derive"
                            + " (--checkpoint-every auto). Default: none, and such jobs are refused",
                    example = "20000h")
            Optional<Duration> nodeMtbf,

            @Key(value = "1m", doc = "no job is checkpointed at a shorter interval", example = "10m")
            Duration leastInterval,

            @Key(
                    value = "2",
                    doc = "how many checkpoints write to one directory at a time. The others wait",
                    example = "4",
                    least = 1,
                    most = 1000)
            int checkpointsAtOnce,

            @Key(
                    value = "4",
                    doc = "how many nodes copy images to the second place of their jobs (copies of a template) at a"
                            + " time. The others wait",
                    example = "8",
                    least = 1,
                    most = 1000)
            int copiesAtOnce,

            @Key(
                    value = "100m",
                    doc = "how much a node copies to the second place in a second. 0: no limit",
                    example = "40m")
            long copyRate) {
        private static final double LEAST_PERCENT = 0.1;
        private static final double MOST_PERCENT = 50;
        private static final double HUNDRED = 100;

        /** Returns the overhead as a part of 1, or empty if it has another form. */
        private Optional<Double> part() {
            if (!overhead.matches("\\d{1,2}(\\.\\d{1,3})?%")) {
                return Optional.empty();
            }
            double percent = Double.parseDouble(overhead.substring(0, overhead.length() - 1));
            return percent < LEAST_PERCENT || percent > MOST_PERCENT
                    ? Optional.empty()
                    : Optional.of(percent / HUNDRED);
        }

        JobTable.JobLimits limits() {
            return new JobTable.JobLimits(
                    keep,
                    holdLimit,
                    stepLimit,
                    new CheckpointBudget(part().orElseThrow(), nodeMtbf, leastInterval, checkpointsAtOnce),
                    copiesAtOnce,
                    copyRate);
        }
    }

    /** The keys of the fence. */
    @Section(name = "fence", doc = "How the active controller proves that a lost node is off.")
    record NodeFenceKeys(
            @Key(
                    doc = "the command that switches a node off. It must exit with 0 only if the node {node}, named as"
                            + " in ppmr nodes, is off. Default: none, and an operator reports nodes that are off",
                    example = "[\"/usr/local/sbin/power-off\", \"{node}\"]")
            Optional<List<String>> command,

            @Key(
                    doc = "a file with the password for the command, owned by the controller's user, mode 0600. Its"
                            + " path replaces {passwordfile} in the command, for example after ipmitool's -f",
                    example = "/etc/ppmr/fence-password")
            Optional<Path> passwordFile,

            @Key(value = "60s", doc = "how long a node is suspect before it is fenced", example = "2m")
            Duration delay,

            @Key(value = "60s", doc = "time limit of the command", example = "30s")
            Duration deadline,

            @Key(
                    value = "4",
                    doc = "how many nodes are fenced within an hour at most. For more, an operator decides",
                    example = "2",
                    least = 1,
                    most = 1000)
            int mostAnHour) {
        private ServiceConfig.FenceSite site() {
            return new ServiceConfig.FenceSite(command, passwordFile, delay, deadline);
        }
    }

    /** Reads a file on its node. Throws with all mistakes. */
    public static ControllerConfig load(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, true);
        ControllerConfig config = read(opened);
        opened.logWarnings();
        return config;
    }

    static ControllerConfig read(ConfigFile file) throws ConfigException {
        ConfigRoles.requireRole(ROLE, file);
        ConfigFile.FileSection<ControllerKeys> top = ConfigRoles.topOf(ROLE, file, ControllerKeys.class);
        ControllerKeys keys = top.values();
        EnsembleKeys ensemble = keys.ensemble();
        ensemble.members().ifPresent(members -> {
            if (members.size() % 2 == 0 || members.size() > MOST_MEMBERS || members.size() == 1) {
                top.bad("members", "has " + members.size() + " hosts; a majority needs three or five");
            }
            if (new HashSet<>(members).size() != members.size()) {
                top.bad("members", "names a host twice: name each controller once");
            }
            if (ensemble.me().isEmpty() || ensemble.me().get() > members.size()) {
                top.bad("me", "must be the number of this controller among the members, from 1 to " + members.size());
            }
            if (ensemble.servers().isPresent()) {
                top.bad(
                        "members",
                        "cannot be used together with servers: an ensemble of the site needs no members; remove one");
            }
        });
        if (ensemble.members().isEmpty() && ensemble.me().isPresent()) {
            top.bad("me", "has no members: name all controllers in members, or remove it");
        }
        if (ensemble.clientPort() == ensemble.quorumPort()
                || ensemble.electionPort() == ensemble.quorumPort()
                || ensemble.electionPort() == ensemble.clientPort()) {
            top.bad("election_port", "client_port, quorum_port and election_port must be three different ports");
        }
        if (ensemble.session().compareTo(ensemble.tick().multipliedBy(SESSION_TICKS)) < 0) {
            top.bad("session", "is shorter than two ticks, which ZooKeeper does not allow: lengthen it");
        }
        PreSharedKey key = top.here(
                "key_file", keys.keyFile(), path -> PreSharedKey.load(path).with(keys.encryption()));
        PreSharedKey controllerKey = top.here("controller_key_file", keys.controllerKeyFile(), PreSharedKey::load);
        if (key != null && controllerKey != null && sameKey(key, controllerKey)) {
            top.bad(
                    "controller_key_file",
                    "has the same key as key_file, which every service has: make another one" + " (ppmr keygen)");
        }
        ConfigFile.FileSection<CheckpointKeys> checkpoints = file.section(CheckpointKeys.class);
        if (checkpoints.values().part().isEmpty()) {
            checkpoints.bad("overhead", "must be a part in percent from 0.1% to 50%, such as \"1%\" or \"2.5%\"");
        }
        ConfigFile.FileSection<NodeFenceKeys> fence = file.section(NodeFenceKeys.class);
        ControllerConfig config = new ControllerConfig(
                keys,
                key,
                controllerKey,
                ensemble.tls().files(top),
                ServiceConfig.access(top, keys.control()),
                ServiceConfig.metrics(file.section(ServiceKeys.MetricsKeys.class)),
                checkpoints.values(),
                ServiceConfig.fence(fence, fence.values().site()),
                fence.values().mostAnHour());
        file.requireGood();
        return config;
    }

    private static boolean sameKey(PreSharedKey one, PreSharedKey other) {
        byte[] text = {0};
        return java.util.Arrays.equals(one.seal(text), other.seal(text));
    }

    /** Returns the host by which services reach this controller. */
    String host() throws UnknownHostException {
        EnsembleKeys ensemble = keys.ensemble();
        if (ensemble.members().isPresent()) {
            return ensemble.members().get().get(ensemble.me().orElseThrow() - 1);
        }
        InetAddress address = keys.listen().getAddress();
        return address == null || !address.isAnyLocalAddress()
                ? keys.listen().getHostString()
                : InetAddress.getLocalHost().getHostName();
    }

    /** Returns the servers of the ensemble, each HOST:PORT, as services connect to them. */
    List<String> servers() throws UnknownHostException {
        EnsembleKeys ensemble = keys.ensemble();
        if (ensemble.servers().isPresent()) {
            return ensemble.servers().get().stream()
                    .map(server -> text(server.getHostString(), server.getPort()))
                    .toList();
        }
        List<String> hosts = ensemble.members().isPresent() ? ensemble.members().get() : List.of(host());
        return hosts.stream().map(host -> text(host, ensemble.clientPort())).toList();
    }

    /** Returns an address as ZooKeeper and people write it. */
    static String text(String host, int port) {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    /** Returns the way of this controller to the ensemble. */
    ControllerAccess ensembleAccess() throws UnknownHostException {
        return new ControllerAccess(
                servers(),
                ClusterUser.controller(controllerKey),
                List.of(ClusterUser.service(key)),
                keys.ensemble().session(),
                tls);
    }

    /** Returns the settings of the controller's own server, or empty if the site has an ensemble. */
    Optional<EnsembleSettings> ownServer() {
        EnsembleKeys ensemble = keys.ensemble();
        if (ensemble.servers().isPresent()) {
            return Optional.empty();
        }
        InetAddress listen = keys.listen().getAddress();
        return Optional.of(new EnsembleSettings(
                ensemble.data(),
                new InetSocketAddress(listen, ensemble.clientPort()),
                ensemble.members().orElse(List.of()),
                ensemble.me().orElse(1),
                new EnsembleSettings.QuorumPorts(ensemble.quorumPort(), ensemble.electionPort()),
                ensemble.tick(),
                tls));
    }
}
