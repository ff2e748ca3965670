package io.ppmr.daemon.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlAccess.ControlGroup;
import io.ppmr.daemon.control.ControlAccess.Right;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ControlAccessTest {
    private static final ControlGroup OPERATORS = new ControlGroup("operators", 815);
    private static final ControlAccess FOR_GROUP = new ControlAccess(Optional.of(OPERATORS), false);

    @TempDir
    private Path folder;

    private static Set<Integer> groups(String user) {
        return user.equals("alice") ? Set.of(100, 815) : Set.of(100);
    }

    @BeforeEach
    void setUp() throws IOException {
        // Other users must be able to reach the socket.
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    @Test
    void shouldLetRootAndTheServicesUserControlWhenNothingIsConfigured() {
        assertEquals(Right.CONTROL, ControlAccess.OWNER.of("root", "root", "ppmr", ControlAccessTest::groups));
        assertEquals(Right.CONTROL, ControlAccess.OWNER.of("ppmr", "ppmr", "ppmr", ControlAccessTest::groups));
        assertEquals(Right.NOTHING, ControlAccess.OWNER.of("alice", "operators", "ppmr", ControlAccessTest::groups));
    }

    @Test
    void shouldLetTheGroupControlWhenCallerIsOfItByAnyWay() {
        assertEquals(Right.CONTROL, FOR_GROUP.of("bob", "operators", "root", ControlAccessTest::groups));
        assertEquals(Right.CONTROL, FOR_GROUP.of("bob", "815", "root", ControlAccessTest::groups));
        assertEquals(Right.CONTROL, FOR_GROUP.of("alice", "users", "root", ControlAccessTest::groups));
        assertEquals(Right.NOTHING, FOR_GROUP.of("bob", "users", "root", ControlAccessTest::groups));
    }

    @Test
    void shouldLetOthersReadTheStatusWhenConfiguredSo() {
        ControlAccess access = new ControlAccess(Optional.of(OPERATORS), true);
        assertEquals(Right.STATUS, access.of("bob", "users", "root", ControlAccessTest::groups));
        assertEquals(Right.CONTROL, access.of("alice", "users", "root", ControlAccessTest::groups));
    }

    /** The caller is another user, on a real socket. */
    @Test
    void shouldAnswerByRightWhenAnotherUserAsks() throws Exception {
        Assumptions.assumeTrue(
                Files.getOwner(folder).getName().equals("root"), "only root can become another user for this test");
        Map<String, ControlRequest<?>> requests = Map.of(
                "status",
                        new ControlRequest<>(
                                ControlRequest.Plain.class, true, (request, with) -> with.send("status", with.user())),
                "migrate",
                        new ControlRequest<>(
                                ControlRequest.Plain.class,
                                false,
                                (request, with) -> with.send("started", with.user())));
        assertEquals("", ask(ControlAccess.OWNER, requests, 4711, 815, "status"));
        assertEquals("{\"started\":\"4711\"}", ask(FOR_GROUP, requests, 4711, 815, "migrate"));
        assertEquals("", ask(FOR_GROUP, requests, 4711, 816, "status"));
        ControlAccess all = new ControlAccess(Optional.of(OPERATORS), true);
        assertEquals("{\"status\":\"4711\"}", ask(all, requests, 4711, 816, "status"));
        assertEquals(
                "{\"error\":\"user 4711 may not control this service: become root, or join group operators; you may"
                        + " read its status\"}",
                ask(all, requests, 4711, 816, "migrate"));
        assertEquals("{\"started\":\"4711\"}", ask(all, requests, 4711, 815, "migrate"));
    }

    /** Returns the first line of the answer, or empty if the kernel refuses the connection. */
    private String ask(ControlAccess access, Map<String, ControlRequest<?>> requests, int uid, int gid, String request)
            throws Exception {
        Path socket = folder.resolve("s");
        try (ControlServer server = new ControlServer(socket, access, requests)) {
            String script = "use IO::Socket::UNIX; alarm 20; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 1;"
                    + "print $s qq({\"request\": \"$ARGV[1]\"}\n); $s->flush; print scalar <$s>;";
            Process client = new ProcessBuilder(
                            "setpriv",
                            "--reuid=" + uid,
                            "--regid=" + gid,
                            "--clear-groups",
                            "perl",
                            "-e",
                            script,
                            server.path().toString(),
                            request)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            assertTrue(client.waitFor(60, TimeUnit.SECONDS));
            return new String(client.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        }
    }
}
