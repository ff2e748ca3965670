package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compares the C library's users and groups with the output of the system's programs. */
class AccountsTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    /** Prints the groups of a user. */
    public static final class Main {
        private Main() {}

        public static void main(String[] arguments) throws Exception {
            System.out.println(new TreeSet<>(Accounts.groupsOf(arguments[0])));
        }
    }

    private static String said(String... words) throws Exception {
        Command.CommandResult result = Command.of(List.of(words)).run(LIMIT);
        assertTrue(result.succeeded(), result.describe());
        return result.output();
    }

    @Test
    void shouldAgreeWithTheSystemsProgramsForEveryUser() throws Exception {
        for (String line : said("getent", "passwd").lines().limit(10).toList()) {
            String[] fields = line.split(":", -1);
            Accounts.User user = new Accounts.User(Integer.parseInt(fields[2]), Integer.parseInt(fields[3]));
            assertEquals(Optional.of(user), Accounts.user(fields[0]), line);
            assertEquals(user.uid(), Accounts.user(user.uid()).orElseThrow().uid(), line);
            Set<Integer> groups = Arrays.stream(
                            said("id", "-G", "--", fields[0]).split(" ", -1))
                    .map(Integer::valueOf)
                    .collect(Collectors.toSet());
            assertEquals(groups, Accounts.groupsOf(fields[0]), line);
            int uid = Integer.parseUnsignedInt(fields[2]);
            assertEquals(Optional.of(groups), Accounts.groupsOf(uid, Integer.parseUnsignedInt(fields[3])), line);
            assertTrue(Accounts.groupsOf(uid, 4711).orElseThrow().contains(4711), line);
        }
        for (String line : said("getent", "group").lines().limit(10).toList()) {
            String[] fields = line.split(":", -1);
            assertEquals(OptionalInt.of(Integer.parseInt(fields[2])), Accounts.group(fields[0]), line);
        }
    }

    @Test
    void shouldFindNoUserWhenNameOrNumberIsUnknown() throws Exception {
        assertEquals(Optional.empty(), Accounts.user("nobody-of-that-name"));
        assertEquals(Optional.empty(), Accounts.user(1_999_999_999));
        assertEquals(OptionalInt.empty(), Accounts.group("no-group-of-that-name"));
        assertEquals(Set.of(), Accounts.groupsOf("nobody-of-that-name"));
        assertEquals(Optional.empty(), Accounts.groupsOf(1_999_999_999, 7));
    }

    @Test
    void shouldTimeOutAndRecoverWhenTheDirectoryServiceDoesNotAnswer() throws Exception {
        CountDownLatch answers = new CountDownLatch(1);
        try {
            String message = assertThrows(
                            IOException.class,
                            () -> Accounts.query("a user", () -> {
                                answers.await();
                                return "too late";
                            }))
                    .getMessage();
            assertEquals("the user database has not answered within 10 s about a user", message);
        } finally {
            answers.countDown();
        }
        assertEquals(0, Accounts.user("root").orElseThrow().uid());
    }

    @Test
    void shouldReturnAllGroupsWhenAUserIsInManyOfThem(@TempDir Path directory) throws Exception {
        Assumptions.assumeTrue(LibC.isRoot(), "only root can mount another file over /etc/group");
        StringBuilder file = new StringBuilder();
        TreeSet<Integer> expected = new TreeSet<>(Set.of(0));
        for (int group = 20_000; group < 20_300; group++) {
            file.append("g").append(group).append(":x:").append(group).append(":root\n");
            expected.add(group);
        }
        Path groups = Files.writeString(directory.resolve("group"), file);
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        assertEquals(
                expected.toString(),
                said(
                        "unshare",
                        "--mount",
                        "/bin/sh",
                        "-ec",
                        "mount --bind \"$1\" /etc/group; shift; exec \"$@\"",
                        "sh",
                        groups.toString(),
                        java,
                        // As in conf/jvm.properties: a later JDK would warn, and the warning would be part of the
                        // output.
                        "--enable-native-access=ALL-UNNAMED",
                        "-Dsun.misc.unsafe.memory.access=allow",
                        "-cp",
                        System.getProperty("java.class.path"),
                        Main.class.getName(),
                        "root"));
    }
}
