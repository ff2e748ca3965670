package io.ppmr.cluster.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.record.ServiceName;
import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.FreePorts;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.server.ZooKeeperServerMain;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A controller at a site's own ZooKeeper, which other programs use, too: ZooKeeper's own server, as it is shipped. */
@Tag("soak")
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SiteEnsembleIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(30));
    private static final int SESSION_MS = 4000;

    private Testbed testbed;
    private Path folder;
    private Path config;
    private Process site;
    private int port;

    @BeforeEach
    void start() throws Exception {
        testbed = Testbed.create("site-ensemble");
        folder = testbed.folder();
        KeyFile.create(folder.resolve("key"));
        KeyFile.create(folder.resolve("controller-key"));
        port = FreePorts.one();
        config = Files.writeString(folder.resolve("controller.toml"), settings());
    }

    @AfterEach
    void end() throws Exception {
        if (site != null) {
            site.destroyForcibly().waitFor();
        }
        testbed.close();
    }

    private String settings() throws IOException {
        return """
                listen = "127.0.0.1:%d"
                key_file = "%s"
                controller_key_file = "%s"
                servers = ["127.0.0.1:%d"]
                control_socket = "%s"
                session = "4s"
                """.formatted(
                        FreePorts.one(),
                        folder.resolve("key"),
                        folder.resolve("controller-key"),
                        port,
                        folder.resolve("controller.sock"));
    }

    private static Command.CommandResult ppmr(String... arguments) throws Exception {
        return Command.of(ServiceProcess.command(arguments)).run(LIMIT);
    }

    /** Starts ZooKeeper's server as a site does: a configuration file, a JAAS file, properties of the JVM. */
    private void startSite(String jaas, String... properties) throws Exception {
        Path logins = Files.writeString(folder.resolve("jaas.conf"), jaas);
        Path configuration =
                Files.writeString(folder.resolve("zoo.cfg"), """
                tickTime=500
                dataDir=%s
                clientPort=%d
                clientPortAddress=127.0.0.1
                admin.enableServer=false
                authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
                """.formatted(folder.resolve("site-data"), port));
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                "-Xmx128m",
                "-Djava.security.auth.login.config=" + logins,
                "-Dzookeeper.fips-mode=false"));
        words.addAll(List.of(properties));
        words.addAll(List.of(ZooKeeperServerMain.class.getName(), configuration.toString()));
        site = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("site.log").toFile())
                .start();
        Conditions.until(LIMIT, "the site's server listens", () -> {
            try (Socket probe = new Socket(InetAddress.getLoopbackAddress(), port)) {
                return probe.isConnected();
            } catch (IOException e) {
                return false;
            }
        });
    }

    private String printedUsers() throws Exception {
        Command.CommandResult printed = ppmr("controller", "--config", config.toString(), "--print-jaas");
        assertEquals(0, printed.exitCode(), printed.output());
        return printed.output();
    }

    /** Runs the controller to its end, which it must reach by itself, and returns its last words. */
    private String refusal() throws Exception {
        Command.CommandResult refused = ppmr("controller", "--config", config.toString());
        assertEquals(1, refused.exitCode(), refused.output());
        return refused.output();
    }

    private Command.CommandResult doctor() throws Exception {
        return ppmr("doctor", "--config", config.toString());
    }

    private ZooKeeper stranger() throws IOException {
        return new ZooKeeper(
                "127.0.0.1:" + port, SESSION_MS, event -> {}, ClientSettings.withoutUser(Optional.empty()));
    }

    @Test
    void shouldServeWhenTheSitesServersAcceptThePrintedUsers() throws Exception {
        startSite(printedUsers());
        ServiceProcess controller = testbed.add(ServiceProcess.start("controller", folder, settings()));
        PreSharedKey key = PreSharedKey.load(folder.resolve("key"));
        try (ServiceSession session = ServiceSession.begin(new ServiceSession.Access(
                List.of("127.0.0.1:" + port),
                ClusterUser.service(key),
                Duration.ofMillis(SESSION_MS),
                Optional.empty()))) {
            session.awaitConnection(LIMIT);
            assertTrue(session.write(
                    new ServiceName("n1", "target"),
                    "?".getBytes(StandardCharsets.US_ASCII),
                    ClusterUser.service(key),
                    List.of(ClusterUser.controller(PreSharedKey.load(folder.resolve("controller-key")))
                            .name())));
            Conditions.until(
                    LIMIT, "the service is shown", () -> ClusterNodes.nodes(folder.resolve("controller.sock")).stream()
                            .anyMatch(node -> node.host().equals("n1")));
        }
        Command.CommandResult well = doctor();
        assertEquals(0, well.exitCode(), well.output());
        assertTrue(well.output().contains("give the cluster's records to no other user"), well.output());
        ZooKeeper stranger = stranger();
        try {
            assertThrows(KeeperException.class, () -> stranger.getChildren(ClusterPaths.SERVICES, false));
        } finally {
            stranger.close(1000);
        }
        assertTrue(controller.isAlive());
    }

    @Test
    void shouldRefuseWhenTheSitesServersDoNotKnowItsUser() throws Exception {
        startSite("Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n user_other=\"x\";\n};\n");
        String said = refusal();
        assertTrue(said.contains("does not authenticate this controller as controller-"), said);
        assertTrue(said.contains("--print-jaas"), said);
        assertEquals(1, doctor().exitCode());
    }

    /** Without the check the client would continue without authentication. */
    @Test
    void shouldRefuseWhenTheSitesServersHaveNoLogins() throws Exception {
        startSite("Other {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n user_other=\"x\";\n};\n");
        String said = refusal();
        assertTrue(said.contains("does not authenticate this controller as controller-"), said);
    }

    @Test
    void shouldRefuseWhenTheSitesServersIgnoreRights() throws Exception {
        startSite(printedUsers(), "-Dzookeeper.skipACL=yes");
        String said = refusal();
        assertTrue(said.contains("to a client that did not authenticate"), said);
        Command.CommandResult wrong = doctor();
        assertEquals(1, wrong.exitCode(), wrong.output());
        assertTrue(wrong.output().contains("skipACL=no"), wrong.output());
    }

    /** Another program made the record first, with rights for everybody. */
    @Test
    void shouldRefuseWhenAnotherMadeTheRecords() throws Exception {
        startSite(printedUsers());
        ZooKeeper stranger = stranger();
        try {
            Conditions.until(LIMIT, "the stranger is connected", () -> stranger.getState()
                    .isConnected());
            stranger.create(ClusterPaths.ROOT, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } finally {
            stranger.close(1000);
        }
        String said = refusal();
        assertTrue(said.contains("gives rights to world:anyone"), said);
    }
}
