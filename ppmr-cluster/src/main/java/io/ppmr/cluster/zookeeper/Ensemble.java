package io.ppmr.cluster.zookeeper;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.zookeeper.common.ClientX509Util;
import org.apache.zookeeper.common.QuorumX509Util;
import org.apache.zookeeper.common.X509Util;
import org.apache.zookeeper.server.NettyServerCnxnFactory;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.embedded.ExitHandler;
import org.apache.zookeeper.server.embedded.ZooKeeperServerEmbedded;
import org.apache.zookeeper.util.ServiceUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * ZooKeeper's server in this process: alone, or one of three or five. It accepts authenticated sessions only, of the
 * services and of the controllers. A process has one at most, since ZooKeeper reads properties of the process. Its
 * owner closes it.
 *
 * <p>The settings follow the administrator's guide of ZooKeeper 3.9.
 */
public final class Ensemble implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Ensemble.class);
    private static final int FAILED = 1;
    private static final Duration START_LIMIT = Duration.ofSeconds(60);
    /** Four snapshots are kept, for an operator who must go back. */
    private static final int SNAPSHOTS = 4;
    /** ZooKeeper allocates its transaction log in pieces of 64 MiB unless configured otherwise. */
    private static final int LOG_PIECE_KIB = 1024;
    /** Some descriptors stay free for questions and probes. */
    private static final int CONNECTIONS = 40_000;

    private static final int SESSIONLESS_MS = 5000;
    /** A service can have names, records and rights as long as a request, so the largest one is a record's. */
    private static final int REQUEST_BYTES = 1 << 10;
    /** Members send each other more at a time. */
    private static final int EXTRA_BYTES = 1 << 20;
    /** Connections with TLS whose handshake has not ended. */
    private static final int HANDSHAKES = 4000;

    private final ZooKeeperServerEmbedded server;

    private Ensemble(ZooKeeperServerEmbedded server) {
        this.server = server;
    }

    /**
     * Starts a server. A member of several starts without the others, and serves when a majority runs.
     *
     * @param accepted the users of sessions, the controllers' first
     * @param member the user that members connect as to each other
     */
    public static Ensemble start(EnsembleSettings settings, List<ClusterUser> accepted, ClusterUser member)
            throws IOException {
        LibraryLogs.quiet();
        System.setProperty(ClientSettings.FIPS_MODE, "false");
        System.setProperty("jute.maxbuffer", Integer.toString(REQUEST_BYTES));
        System.setProperty("zookeeper.jute.maxbuffer.extrasize", Integer.toString(EXTRA_BYTES));
        // A service cannot fill the memory of the servers. See ControllerStore.
        System.setProperty("zookeeper.enforceQuota", "true");
        // Rights that a service gives do not bind controllers, which remove what has no session.
        System.setProperty("zookeeper.superUser", accepted.get(0).name());
        // The names of all records of a session could be longer than a record of the log may be.
        System.setProperty("zookeeper.closeSessionTxn.enabled", "false");
        System.setProperty("zookeeper.sasl.serverconfig", LoginEntries.ofServer("ppmr-server", accepted));
        Path data = settings.data();
        Files.createDirectories(
                data, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        requireFree(settings.client());
        removeOldConfigurations(data);
        Properties properties = properties(settings);
        settings.tls().ifPresent(Ensemble::useTls);
        if (!settings.members().isEmpty()) {
            addMembers(settings, member, properties);
            Files.writeString(data.resolve("myid"), Integer.toString(settings.me()), StandardCharsets.US_ASCII);
        }
        try {
            ZooKeeperServerEmbedded server = ZooKeeperServerEmbedded.builder()
                    .baseDir(data)
                    .configuration(properties)
                    .exitHandler(ExitHandler.LOG_ONLY)
                    .build();
            server.start(START_LIMIT.toMillis());
            // Without its server a controller is of no use. The status is one after which systemd starts it again. The
            // start itself sets a procedure, so this comes after it.
            ServiceUtils.setSystemExitProcedure(Ensemble::end);
            return new Ensemble(server);
        } catch (IOException e) {
            throw e;
        } catch (Exception e) {
            throw new IOException(
                    "the server of the ensemble does not start at " + settings.client() + ": " + e
                            + ". Remedy: free its ports, or name others (client_port, quorum_port, election_port)",
                    e);
        }
    }

    private static void end(int status) {
        LOG.error("the ensemble's server has failed (status {} of ZooKeeper): this controller ends", status);
        System.exit(FAILED);
    }

    /** Throws at once if another process has the port. ZooKeeper's server would be waited for in vain. */
    private static void requireFree(InetSocketAddress client) throws IOException {
        try (ServerSocket probe = new ServerSocket()) {
            probe.setReuseAddress(true);
            probe.bind(client);
        } catch (IOException e) {
            throw new IOException(
                    "the server of the ensemble cannot listen on " + client + ": " + e.getMessage()
                            + ". Remedy: end the process that has the port, or name another client_port",
                    e);
        }
    }

    /** Each start leaves one, with nothing secret in it. */
    private static void removeOldConfigurations(Path data) throws IOException {
        try (DirectoryStream<Path> old = Files.newDirectoryStream(data, "zookeeper.configuration*")) {
            for (Path file : old) {
                Files.delete(file);
            }
        }
    }

    private static Properties properties(EnsembleSettings settings) {
        Properties properties = new Properties();
        properties.setProperty("dataDir", settings.data().toString());
        String port = settings.tls().isPresent() ? "secureClientPort" : "clientPort";
        properties.setProperty(port, Integer.toString(settings.client().getPort()));
        properties.setProperty(port + "Address", settings.client().getAddress().getHostAddress());
        properties.setProperty("tickTime", Long.toString(settings.tick().toMillis()));
        // Many nodes may have one address, behind a translation of addresses.
        properties.setProperty("maxClientCnxns", "0");
        properties.setProperty("maxCnxns", Integer.toString(CONNECTIONS));
        properties.setProperty("nio.sessionlessCnxnTimeout", Integer.toString(SESSIONLESS_MS));
        properties.setProperty("preAllocSize", Integer.toString(LOG_PIECE_KIB));
        properties.setProperty("forceSync", "yes");
        properties.setProperty("autopurge.snapRetainCount", Integer.toString(SNAPSHOTS));
        properties.setProperty("autopurge.purgeInterval", "1");
        properties.setProperty("admin.enableServer", "false");
        properties.setProperty("4lw.commands.whitelist", "");
        properties.setProperty("fips-mode", "false");
        properties.setProperty("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider");
        // A client whose own set-up of SASL fails would continue without authentication.
        properties.setProperty("sessionRequireClientSASLAuth", "true");
        return properties;
    }

    /** Only Netty's connections know TLS. A client without a certificate of the authorities gets nothing. */
    private static void useTls(TlsFiles tls) {
        System.setProperty(ServerCnxnFactory.ZOOKEEPER_SERVER_CNXN_FACTORY, NettyServerCnxnFactory.class.getName());
        System.setProperty("zookeeper.netty.server.outstandingHandshake.limit", Integer.toString(HANDSHAKES));
        try (X509Util clients = new ClientX509Util();
                X509Util members = new QuorumX509Util()) {
            tls.put(clients, System::setProperty);
            tls.put(members, System::setProperty);
        }
    }

    private static void addMembers(EnsembleSettings settings, ClusterUser member, Properties properties) {
        for (int i = 0; i < settings.members().size(); i++) {
            String host = settings.members().get(i);
            properties.setProperty(
                    "server." + (i + 1),
                    (host.contains(":") ? "[" + host + "]" : host) + ":"
                            + settings.quorumPorts().leader() + ":"
                            + settings.quorumPorts().election());
        }
        properties.setProperty("sslQuorum", Boolean.toString(settings.tls().isPresent()));
        properties.setProperty("initLimit", "10");
        properties.setProperty("syncLimit", "5");
        properties.setProperty("standaloneEnabled", "false");
        properties.setProperty("quorum.auth.enableSasl", "true");
        properties.setProperty("quorum.auth.learnerRequireSasl", "true");
        properties.setProperty("quorum.auth.serverRequireSasl", "true");
        properties.setProperty("quorum.auth.learner.saslLoginContext", LoginEntries.ofClient(member));
        properties.setProperty(
                "quorum.auth.server.saslLoginContext", LoginEntries.ofServer("ppmr-quorum", List.of(member)));
    }

    @Override
    public void close() {
        server.close();
    }
}
