package io.ppmr.daemon.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlAccess.ControlGroup;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ordinary users open connections to a control socket and send nothing. Each runs as its own user. */
class ControlFloodTest {
    private static final ControlGroup OPERATORS = new ControlGroup("operators", 815);
    private static final Map<String, ControlRequest<?>> REQUESTS = Map.of(
            "status",
            new ControlRequest<>(
                    ControlRequest.Plain.class, true, (request, with) -> with.send("status", with.user())));

    /**
     * Opens forty connections at once, reports that, and continues with some hundred a second. It holds the last
     * hundred.
     */
    private static final String FLOOD = """
            use IO::Socket::UNIX; alarm 120; $| = 1; my @held; my $n = 0;
            while (1) {
                my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or next;
                push @held, $s; shift @held if @held > 100;
                print "full\\n" if ++$n == 40;
                select(undef, undef, undef, 0.005) if $n > 40;
            }""";
    /** Sends one request, and prints the answer. */
    private static final String ASK = """
            use IO::Socket::UNIX; alarm 60; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 1;
            print $s qq({"request": "status"}\\n); $s->flush; print scalar <$s>;""";

    @TempDir
    private Path folder;

    private final List<Process> users = new ArrayList<>();

    @BeforeEach
    void setUp() throws IOException {
        Assumptions.assumeTrue(
                Files.getOwner(folder).getName().equals("root"), "only root can become another user for this test");
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    @AfterEach
    void end() throws InterruptedException {
        for (Process user : users) {
            user.destroyForcibly();
            assertTrue(user.waitFor(60, TimeUnit.SECONDS));
        }
    }

    private Process as(int uid, int gid, String script) throws IOException {
        Process user = new ProcessBuilder(
                        "setpriv",
                        "--reuid=" + uid,
                        "--regid=" + gid,
                        "--clear-groups",
                        "perl",
                        "-e",
                        script,
                        folder.resolve("s").toString())
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        users.add(user);
        return user;
    }

    private String ask(int uid, int gid) throws Exception {
        Process user = as(uid, gid, ASK);
        assertTrue(user.waitFor(90, TimeUnit.SECONDS));
        return new String(user.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
    }

    @Test
    void shouldAnswerRootTheGroupAndOtherUsersWhileUsersHoldAllThatTheyCanGet() throws Exception {
        ControlAccess access = new ControlAccess(Optional.of(OPERATORS), true);
        // An operator whose only membership is a supplementary group, which has to be looked up.
        Function<String, Set<Integer>> groups = user -> user.equals("4790") ? Set.of(100, 815) : Set.of(100);
        try (ControlServer server = new ControlServer(folder.resolve("s"), access, REQUESTS, groups)) {
            flood(4711);
            assertEquals("{\"status\":\"4712\"}", ask(4712, 816), "one user keeps no other one out");
            for (int uid = 4713; uid < 4717; uid++) {
                flood(uid);
            }
            for (int i = 0; i < 10; i++) {
                assertEquals("{\"status\":\"root\"}", ask(0, 0));
            }
            assertEquals("{\"status\":\"4780\"}", ask(4780, 815), "a member by its own group");
            assertEquals("{\"status\":\"4790\"}", ask(4790, 816), "a member by a group that is looked up");
            assertEquals(Optional.empty(), server.complaint(Duration.ofSeconds(30)));
        }
    }

    private void flood(int uid) throws IOException {
        BufferedReader said = as(uid, 816, FLOOD).inputReader(StandardCharsets.US_ASCII);
        assertEquals("full", said.readLine());
    }
}
