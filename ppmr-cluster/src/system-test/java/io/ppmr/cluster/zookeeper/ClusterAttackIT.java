package io.ppmr.cluster.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.message.ControllerQuestions;
import io.ppmr.cluster.message.NoControllerException;
import io.ppmr.cluster.record.NodeView;
import io.ppmr.cluster.record.ServiceName;
import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.FreePorts;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.NoAuthException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** Attacks on a controller: by peers without a key, with a wrong key, and with the key of services. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ClusterAttackIT {
    private static final Duration LIMIT = Duration.ofSeconds(10);
    private static final int SESSION_MS = 4000;
    private static final int IDLE_CONNECTIONS = 512;

    private static Testbed testbed;
    private static Path socket;
    private static PreSharedKey key;
    private static PreSharedKey wrongKey;
    private static InetSocketAddress questions;
    private static String server;
    private static int clientPort;

    @BeforeAll
    static void start() throws Exception {
        testbed = Testbed.create("cluster-attack");
        Path folder = testbed.folder();
        for (String name : List.of("key", "controller-key", "wrong-key")) {
            KeyFile.create(folder.resolve(name));
        }
        key = PreSharedKey.load(folder.resolve("key"));
        wrongKey = PreSharedKey.load(folder.resolve("wrong-key"));
        questions = new InetSocketAddress(InetAddress.getLoopbackAddress(), FreePorts.one());
        clientPort = FreePorts.one();
        server = "127.0.0.1:" + clientPort;
        socket = folder.resolve("controller.sock");
        testbed.add(ServiceProcess.start("controller", folder, """
                listen = "127.0.0.1:%d"
                client_port = %d
                key_file = "key"
                controller_key_file = "controller-key"
                data = "data"
                control_socket = "%s"
                tick = "500ms"
                session = "2s"
                """.formatted(questions.getPort(), clientPort, socket)));
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static ServiceSession.Access access(PreSharedKey with) {
        return new ServiceSession.Access(
                List.of(server), ClusterUser.service(with), Duration.ofMillis(SESSION_MS), Optional.empty());
    }

    /** A session of the services' user, with all that ZooKeeper's own client can do. */
    private static ZooKeeper serviceClient() throws Exception {
        CountDownLatch authenticated = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(
                server,
                SESSION_MS,
                event -> {
                    if (event.getState() == KeeperState.SaslAuthenticated) {
                        authenticated.countDown();
                    }
                },
                ClientSettings.of(ClusterUser.service(key), Optional.empty()));
        assertTrue(authenticated.await(LIMIT.toSeconds(), TimeUnit.SECONDS), "the services' key is valid");
        return client;
    }

    @Test
    void shouldAnswerNoQuestionWhenTheKeyIsWrong() throws Exception {
        ControllerQuestions wrong = new ControllerQuestions(List.of(questions), wrongKey);
        NoControllerException refused =
                assertThrows(NoControllerException.class, () -> wrong.join("n1", "target", LIMIT));
        assertTrue(refused.getMessage().contains("key"), refused.getMessage());
    }

    @Test
    void shouldRefuseTheSessionWhenTheKeyIsWrong() throws Exception {
        try (ServiceSession session = ServiceSession.begin(access(wrongKey))) {
            assertThrows(IOException.class, () -> session.awaitConnection(Duration.ofSeconds(3)));
        }
    }

    @Test
    void shouldDoNothingForAClientWithoutAuthentication() throws Exception {
        ZKClientConfig without = new ZKClientConfig();
        without.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, "false");
        ZooKeeper client = new ZooKeeper(server, SESSION_MS, event -> {}, without);
        try {
            assertThrows(KeeperException.class, () -> client.getChildren("/", false));
            assertThrows(
                    KeeperException.class,
                    () -> client.create("/x", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        } finally {
            client.close(1000);
        }
    }

    @Test
    void shouldChangeNothingOfTheControllersWhenTheServicesKeyIsUsed() throws Exception {
        ZooKeeper client = serviceClient();
        ServiceSession victim = ServiceSession.begin(access(key));
        try {
            victim.awaitConnection(LIMIT);
            assertTrue(victim.write(
                    new ServiceName("victim", "target"),
                    "no record".getBytes(StandardCharsets.US_ASCII),
                    ClusterUser.service(key),
                    List.of()));
            byte[] evil = "evil".getBytes(StandardCharsets.US_ASCII);
            String election = ClusterPaths.LATCH + "/"
                    + client.getChildren(ClusterPaths.LATCH, false).get(0);
            for (Executable attack : List.<Executable>of(
                    () -> client.setData(ClusterPaths.ID, evil, -1),
                    () -> client.setData(ClusterPaths.SERVICES, evil, -1),
                    () -> client.delete(ClusterPaths.ID, -1),
                    () -> client.delete(ClusterPaths.SERVICES + "/victim.target", -1),
                    () -> client.setACL(ClusterPaths.ID, Ids.OPEN_ACL_UNSAFE, -1),
                    () -> client.setACL(ClusterPaths.SERVICES, Ids.OPEN_ACL_UNSAFE, -1),
                    () -> client.create(ClusterPaths.NODES + "/x", evil, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    () -> client.create(ClusterPaths.LATCH + "/x", evil, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    () -> client.create(ClusterPaths.JOBS + "/1.x", evil, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    () -> client.create(ClusterPaths.ORDERS + "/x", evil, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    () -> client.setData(ClusterPaths.JOBS, evil, -1),
                    () -> client.setACL(ClusterPaths.ORDERS, Ids.OPEN_ACL_UNSAFE, -1),
                    () -> client.setData(election, evil, -1),
                    () -> client.setACL(election, Ids.OPEN_ACL_UNSAFE, -1),
                    () -> client.create("/zookeeper/x", evil, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    () -> client.create("/zookeeper/quota/x", evil, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    () -> client.create("/x", evil, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT))) {
                assertThrows(NoAuthException.class, attack);
            }
        } finally {
            victim.close();
            client.close(1000);
        }
    }

    @Test
    void shouldShowARecordThatCannotBeReadAndIgnoreNamesOfOtherForms() throws Exception {
        ZooKeeper client = serviceClient();
        try {
            for (String name : List.of("long.target", "-.target", "no-role")) {
                client.create(
                        ClusterPaths.SERVICES + "/" + name, new byte[600], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            }
            Conditions.until(LIMIT, "the unreadable record is shown", () -> hosts().contains("long"));
            assertEquals(
                    Optional.of("?"),
                    ClusterNodes.nodes(socket).stream()
                            .filter(node -> node.host().equals("long"))
                            .map(NodeView::release)
                            .findFirst());
            assertFalse(hosts().contains("-"));
            assertFalse(hosts().contains("no-role"));
        } finally {
            client.close(1000);
        }
    }

    /** The memory of the servers has a limit for what holders of the key store: names, records and rights. */
    @Test
    void shouldServeWhenAServiceStoresAsMuchAsItCan() throws Exception {
        ZooKeeper client = serviceClient();
        Map<KeeperException.Code, Integer> refused = new ConcurrentHashMap<>();
        String longest = "n".repeat(800);
        Semaphore underWay = new Semaphore(200);
        try {
            for (int i = 0; i < 25_000; i++) {
                underWay.acquire();
                client.create(
                        ClusterPaths.SERVICES + "/" + longest + i,
                        new byte[0],
                        Ids.OPEN_ACL_UNSAFE,
                        CreateMode.EPHEMERAL,
                        (code, path, context, name) -> {
                            refused.merge(KeeperException.Code.get(code), 1, Integer::sum);
                            underWay.release();
                        },
                        null);
            }
            underWay.acquire(200);
            assertEquals(Set.of(KeeperException.Code.OK, KeeperException.Code.QUOTAEXCEEDED), refused.keySet());
            hosts();
        } finally {
            client.close(10_000);
        }
        ServiceSession session = ServiceSession.begin(access(key));
        try {
            session.awaitConnection(LIMIT);
            Conditions.until(LIMIT, "a service can join again", () -> {
                try {
                    return session.write(
                            new ServiceName("n1", "target"), new byte[1], ClusterUser.service(key), List.of());
                } catch (IOException e) {
                    return false;
                }
            });
        } finally {
            session.close();
        }
    }

    @Test
    void shouldTakeNoRequestThatIsLongerThanARecord() throws Exception {
        ZooKeeper client = serviceClient();
        try {
            for (String name : List.of("n".repeat(2000), "x")) {
                assertThrows(
                        KeeperException.ConnectionLossException.class,
                        () -> client.create(
                                ClusterPaths.SERVICES + "/" + name,
                                new byte[name.length() == 1 ? 2000 : 0],
                                Ids.OPEN_ACL_UNSAFE,
                                CreateMode.EPHEMERAL));
                Conditions.until(
                        LIMIT, "it is connected again", () -> client.getState().isConnected());
            }
        } finally {
            client.close(1000);
        }
    }

    /** Such records would use up the quota for ever. */
    @Test
    void shouldRemoveARecordThatNoSessionEndsWhateverItsRightsAre() throws Exception {
        ZooKeeper client = serviceClient();
        List<ACL> own = new ArrayList<>();
        own.add(new ACL(Perms.ALL, new Id("sasl", ClusterUser.service(key).name())));
        try {
            client.create(ClusterPaths.SERVICES + "/hidden.target", new byte[1], own, CreateMode.PERSISTENT);
            // In one step, before a controller removes the first one.
            client.multi(List.of(
                    Op.create(ClusterPaths.SERVICES + "/parent.target", new byte[1], own, CreateMode.PERSISTENT),
                    Op.create(
                            ClusterPaths.SERVICES + "/parent.target/child", new byte[1], own, CreateMode.PERSISTENT)));
            client.create(ClusterPaths.SERVICES + "/box.target", new byte[1], own, CreateMode.CONTAINER);
            for (String name : List.of("hidden.target", "parent.target", "box.target")) {
                Conditions.until(
                        LIMIT,
                        name + " is removed",
                        () -> client.exists(ClusterPaths.SERVICES + "/" + name, false) == null);
            }
        } finally {
            client.close(1000);
        }
    }

    /** A record without a session would show a node for ever. */
    @Test
    void shouldRemoveARecordWithoutASession() throws Exception {
        ZooKeeper client = serviceClient();
        try {
            String lasting = ClusterPaths.SERVICES + "/lasting.target";
            client.create(lasting, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            Conditions.until(LIMIT, "the record is removed", () -> client.exists(lasting, false) == null);
            assertFalse(hosts().contains("lasting"));
        } finally {
            client.close(1000);
        }
    }

    /** A peer with the key that sends many questions at once must not fill the memory of a controller. */
    @Test
    void shouldEndAConnectionThatSendsQuestionsBeforeTheAnswers() throws Exception {
        Connector.Control control = new Connector(questions, key, LIMIT).control();
        ControlLink link = new ControlLink(control.channel(), control.version(), 1, LIMIT.toNanos());
        ClusterMessage question = new ClusterMessage.Join("n1", "target", "00");
        assertThrows(IOException.class, () -> {
            for (long endNs = System.nanoTime() + LIMIT.toNanos(); System.nanoTime() - endNs < 0; ) {
                for (int i = 0; i < 100; i++) {
                    link.sendFromAgent(question);
                }
                link.doWork((type, buffer, offset, lengthBytes) -> {});
                link.transmit();
            }
        });
        link.close();
    }

    private static List<String> hosts() throws Exception {
        return ClusterNodes.nodes(socket).stream().map(NodeView::host).toList();
    }

    @Test
    void shouldServeServicesBesideIdleConnections() throws Exception {
        List<Socket> idle = new ArrayList<>();
        try {
            for (int i = 0; i < IDLE_CONNECTIONS; i++) {
                idle.add(new Socket(questions.getAddress(), questions.getPort()));
                idle.add(new Socket(questions.getAddress(), clientPort));
            }
            ClusterMessage.JoinAnswer joined =
                    new ControllerQuestions(List.of(questions), key).join("n1", "target", LIMIT);
            assertEquals(List.of(server), joined.servers());
            try (ServiceSession session = ServiceSession.begin(access(key))) {
                session.awaitConnection(LIMIT);
            }
            ClusterNodes.nodes(socket);
        } finally {
            for (Socket one : idle) {
                one.close();
            }
        }
    }
}
