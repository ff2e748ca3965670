package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;

/** Tries in a pod, as its user, what no process of a pod may do: to have a user namespace or a Landlock domain. */
final class Confinement {
    private static final Path PROGRAM =
            Path.of(System.getProperty("ppmr.home"), "ppmr-system-tests/target/native-test/confined");
    /** EPERM and ENOSYS, by the names of the calls that {@code confined} tries. */
    private static final Map<String, Integer> REFUSED = Map.of(
            "clone", 1,
            "unshare", 1,
            "unshare-all", 1,
            "setns", 1,
            "setns-any", 1,
            "clone3", 38,
            "landlock", 38);
    /** Calls that end a process, or are not there, on a kernel without that calling convention. */
    private static final String[] REFUSED_OTHERWISE = {
        "clone-32", "clone3-32", "unshare-32", "landlock-32", "unshare-x32"
    };

    private Confinement() {}

    /** Runs a line of sh(1) in a pod, and returns its output. */
    @FunctionalInterface
    interface Shell {
        String run(String line) throws Exception;
    }

    /** Requires that the shell and its children are refused all of it, and nothing that programs use. */
    static void require(Shell shell) throws Exception {
        String program = Base64.getEncoder().encodeToString(Files.readAllBytes(PROGRAM));
        String said =
                shell.run("echo " + program + " | base64 -d >/tmp/confined; chmod +x /tmp/confined; /tmp/confined");
        requireIn(said);
        assertTrue(shell.run("grep Seccomp: /proc/self/status").contains("\t2"), "it is filtered");
    }

    /** Requires that of the program's output. */
    static void requireIn(String said) {
        Map<String, Integer> errors = new TreeMap<>();
        for (String line : said.strip().split("\n", -1)) {
            String[] words = line.split(" ", 2);
            errors.put(words[0], Integer.parseInt(words[1].strip()));
        }
        REFUSED.forEach((call, error) -> assertEquals(error, errors.get(call), call + " of " + said));
        for (String call : REFUSED_OTHERWISE) {
            assertNotEquals(0, errors.get(call), call + " of " + said);
        }
        assertEquals(0, errors.get("fork-by-clone"), said);
        assertEquals(0, errors.get("unshare-files"), said);
    }
}
