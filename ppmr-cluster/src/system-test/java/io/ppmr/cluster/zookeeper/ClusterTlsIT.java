package io.ppmr.cluster.zookeeper;

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
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Three controllers whose connections are protected by TLS, and clients with and without certificates. */
@Tag("soak")
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ClusterTlsIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Duration SESSION = Duration.ofSeconds(4);
    private static final List<String> HOSTS = List.of("127.0.0.1", "127.0.0.2", "127.0.0.3");

    private static Testbed testbed;
    private static Path folder;
    private static int clientPort;
    private static final List<Integer> QUESTION_PORTS = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        testbed = Testbed.create("cluster-tls");
        folder = testbed.folder();
        KeyFile.create(folder.resolve("key"));
        KeyFile.create(folder.resolve("controller-key"));
        authority("authority");
        authority("other-authority");
        certificate("node", "authority", HOSTS);
        certificate("elsewhere", "authority", List.of("10.9.9.9"));
        certificate("other", "other-authority", HOSTS);
        clientPort = FreePorts.one();
        int quorumPort = FreePorts.one();
        int electionPort = FreePorts.one();
        List<ServiceProcess> controllers = new ArrayList<>();
        for (int me = 1; me <= HOSTS.size(); me++) {
            controllers.add(begin(me, HOSTS.get(me - 1), "node", """
                    quorum_port = %d
                    election_port = %d
                    members = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
                    me = %d
                    """.formatted(quorumPort, electionPort, me)));
        }
        for (ServiceProcess controller : controllers) {
            controller.awaitReady(LIMIT);
        }
    }

    private static ServiceProcess begin(int number, String host, String certificate, String lines) throws Exception {
        Path own = testbed.folder("controller-" + number);
        QUESTION_PORTS.add(FreePorts.one());
        return testbed.add(ServiceProcess.begin(
                null,
                ServiceProcess.java(),
                "controller",
                own,
                List.of("controller"),
                """
                        listen = "%s:%d"
                        client_port = %d
                        key_file = "%s"
                        controller_key_file = "%s"
                        tls = "%s"
                        tls_authorities = "%s"
                        data = "%s"
                        control_socket = "%s"
                        tick = "500ms"
                        session = "4s"
                        """.formatted(
                                        host,
                                        QUESTION_PORTS.get(number - 1),
                                        clientPort,
                                        folder.resolve("key"),
                                        folder.resolve("controller-key"),
                                        folder.resolve(certificate + ".pem"),
                                        folder.resolve("authority.pem"),
                                        own.resolve("data"),
                                        own.resolve("controller.sock"))
                        + lines));
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static void openssl(String... arguments) throws Exception {
        List<String> words = new ArrayList<>(List.of("openssl"));
        words.addAll(List.of(arguments));
        Command.of(words).run(LIMIT).requireOutput();
    }

    private static String file(String name) {
        return folder.resolve(name).toString();
    }

    private static void authority(String name) throws Exception {
        openssl(
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=" + name,
                "-keyout",
                file(name + ".key"),
                "-out",
                file(name + ".pem"));
    }

    private static void certificate(String name, String authority, List<String> hosts) throws Exception {
        openssl(
                "req",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-subj",
                "/CN=" + name,
                "-addext",
                "subjectAltName=IP:" + String.join(",IP:", hosts),
                "-keyout",
                file(name + ".key"),
                "-out",
                file(name + ".csr"));
        openssl(
                "x509",
                "-req",
                "-days",
                "2",
                "-in",
                file(name + ".csr"),
                "-CA",
                file(authority + ".pem"),
                "-CAkey",
                file(authority + ".key"),
                "-CAcreateserial",
                "-copy_extensions",
                "copy",
                "-out",
                file(name + ".crt"));
        Path whole = Files.writeString(
                folder.resolve(name + ".pem"),
                Files.readString(folder.resolve(name + ".key")) + Files.readString(folder.resolve(name + ".crt")));
        Files.setPosixFilePermissions(whole, PosixFilePermissions.fromString("rw-------"));
    }

    private static ServiceSession session(Optional<TlsFiles> tls) throws IOException {
        return session(HOSTS, tls);
    }

    private static ServiceSession session(List<String> hosts, Optional<TlsFiles> tls) throws IOException {
        return ServiceSession.begin(new ServiceSession.Access(
                hosts.stream().map(host -> host + ":" + clientPort).toList(),
                ClusterUser.service(PreSharedKey.load(folder.resolve("key"))),
                SESSION,
                tls));
    }

    private static Optional<TlsFiles> with(String certificate, String authority) {
        return Optional.of(new TlsFiles(folder.resolve(certificate + ".pem"), folder.resolve(authority + ".pem")));
    }

    @Test
    void shouldShowAServiceWhenItsCertificateIsOfTheAuthorities() throws Exception {
        try (ServiceSession session = session(with("node", "authority"))) {
            session.awaitConnection(LIMIT);
            assertTrue(session.write(
                    new ServiceName("n1", "target"),
                    "?".getBytes(StandardCharsets.US_ASCII),
                    ClusterUser.service(PreSharedKey.load(folder.resolve("key"))),
                    List.of(ClusterUser.controller(PreSharedKey.load(folder.resolve("controller-key")))
                            .name())));
            Conditions.until(
                    LIMIT,
                    "the service is shown",
                    () -> ClusterNodes.nodes(testbed.folder("controller-1").resolve("controller.sock")).stream()
                            .anyMatch(node -> node.host().equals("n1")));
        }
    }

    @Test
    void shouldRefuseAClientWithoutTls() throws Exception {
        try (ServiceSession session = session(Optional.empty())) {
            assertThrows(IOException.class, () -> session.awaitConnection(Duration.ofSeconds(3)));
        }
    }

    @Test
    void shouldRefuseAClientWhenItsCertificateIsOfAnotherAuthority() throws Exception {
        try (ServiceSession session = session(with("other", "authority"))) {
            assertThrows(IOException.class, () -> session.awaitConnection(Duration.ofSeconds(3)));
        }
    }

    /** A peer that holds the port of a server, and has a certificate of another authority. */
    @Test
    void shouldNotTrustAServerWhenItsCertificateIsOfAnotherAuthority() throws Exception {
        try (ServiceSession session = session(with("node", "other-authority"))) {
            assertThrows(IOException.class, () -> session.awaitConnection(Duration.ofSeconds(3)));
        }
    }

    @Test
    void shouldNotTrustAServerWhenItsCertificateNamesAnotherHost() throws Exception {
        begin(4, "127.0.0.4", "elsewhere", "");
        Conditions.until(LIMIT, "the server listens", () -> {
            try (Socket probe = new Socket(InetAddress.getByAddress(new byte[] {127, 0, 0, 4}), clientPort)) {
                return probe.isConnected();
            } catch (IOException e) {
                return false;
            }
        });
        try (ServiceSession session = session(List.of("127.0.0.4"), with("node", "authority"))) {
            assertThrows(IOException.class, () -> session.awaitConnection(Duration.ofSeconds(3)));
        }
    }

    @Test
    void shouldJoinWhenAServiceHasTheKeysOfThePage() throws Exception {
        ServiceProcess target =
                target("with-tls", """
                tls = "%s"
                tls_authorities = "%s"
                """.formatted(folder.resolve("node.pem"), folder.resolve("authority.pem")));
        Conditions.until(LIMIT, "the service joins", () -> target.log().contains("this service is in cluster"));
    }

    @Test
    void shouldNameTheKeysWhenAServiceDoesNotUseTls() throws Exception {
        ServiceProcess target = target("without-tls", "");
        Conditions.until(LIMIT, "the service names the keys", () -> target.log()
                .contains("accept TLS alone. Remedy: name cluster.tls and cluster.tls_authorities"));
    }

    /** @param keys further keys of its cluster */
    private static ServiceProcess target(String name, String keys) throws Exception {
        Path own = testbed.folder(name);
        return testbed.add(ServiceProcess.start(
                "target",
                own,
                """
                listen = "127.0.0.1:%d"
                key_file = "%s"
                control_socket = "%s"
                transport = "tcp"
                warm_up_migrations = 0
                unknown_users = true
                [cluster]
                controllers = ["127.0.0.1:%d"]
                %s
                [pool]
                size = "4m"
                """.formatted(
                                        FreePorts.one(),
                                        folder.resolve("key"),
                                        own.resolve("target.sock"),
                                        QUESTION_PORTS.get(0),
                                        keys)
                        + ClusterNodes.noCheckpointer()));
    }
}
