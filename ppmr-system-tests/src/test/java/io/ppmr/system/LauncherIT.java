package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Root runs no program that a user could have put there, when it starts a service out of an installed tree. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LauncherIT {
    private static final int USER = 20001;
    private static final String AS_USER = "setpriv --reuid 20001 --regid 20001 --clear-groups ";
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final String PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

    private Path base;
    private Path tree;
    private Path shared;

    @BeforeEach
    void install() throws Exception {
        // The folder is not in /tmp, in which every user may write.
        base = Files.createTempDirectory(Path.of("/var/lib"), "ppmr-launcher-it");
        allow(base, "rwxr-xr-x");
        shared = Files.createDirectory(base.resolve("shared"));
        allow(shared, "rwxrwxrwx");
        PpmrCommand installed = PpmrCommand.run("install", "--root", base.toString(), "--prefix", "/opt/ppmr");
        assertEquals(0, installed.exitCode(), installed.said());
        tree = base.resolve("opt/ppmr");
    }

    @AfterEach
    void remove() throws IOException {
        try (Stream<Path> files = Files.walk(base)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    private static void allow(Path path, String permissions) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
    }

    private static Command.CommandResult run(String... words) throws IOException, InterruptedException {
        return Command.of(List.of(words)).run(LIMIT);
    }

    private void requireNothingRan() throws IOException {
        Path ran = shared.resolve("ran");
        assertFalse(Files.exists(ran), () -> "a user's program ran");
    }

    /** A java that prints the user that it was started as, in a JDK as the launcher expects one. */
    private String makeJdk(String folder) {
        return "mkdir -p " + folder + "/bin && echo 'JAVA_VERSION=\"17\"' >" + folder + "/release"
                + " && printf '#!/bin/sh\\nid -u >" + shared + "/ran\\n' >" + folder + "/bin/java"
                + " && cp " + folder + "/bin/java " + folder + "/bin/javac && chmod 755 " + folder + "/bin/*";
    }

    // ---- java ------------------------------------------------------------------------------------------------------

    @Test
    void shouldRunNoJavaOutOfAFolderThatEverybodyCanMakeWhenAServiceHasNoHome() throws Exception {
        String attack = makeJdk("/var/tmp/ppmr-0/.cache/ppmr/jdk-17/usr/lib/jvm/own");
        Command.CommandResult result = run(
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-ec",
                "mount -t tmpfs ppmr-test /usr/lib/jvm; mount -t tmpfs -o mode=1777 ppmr-test /var/tmp; " + AS_USER
                        + "sh -ec \"$1\"; exec env -i PATH=" + PATH + " " + tree + "/ppmr target --config /none",
                "sh",
                attack);
        requireNothingRan();
        assertNotEquals(0, result.exitCode());
        assertTrue(result.output().contains("no JDK 17 or 25 found"), result.output());
    }

    @ParameterizedTest
    @ValueSource(strings = {"by root's link"})
    void shouldRefuseAJavaThatAUserCanChange(String which) throws Exception {
        Path users = shared.resolve("jdk");
        assertEquals(
                0,
                run("sh", "-c", AS_USER + "sh -ec \"$1\"", "sh", makeJdk(users.toString()))
                        .exitCode());
        Path jdk = which.equals("its own") ? users : Files.createSymbolicLink(base.resolve("jdk"), users);
        Command.CommandResult result =
                run("env", "-i", "PATH=" + PATH, "PPMR_JAVA_HOME=" + jdk, tree + "/ppmr", "--version");
        requireNothingRan();
        assertNotEquals(0, result.exitCode());
        assertTrue(
                result.output().contains("root does not run " + jdk + "/bin/java")
                        && result.output().contains("Remedy: "),
                result.output());
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"its own"})
    void shouldRefuseAJavaThatAUserCanChangeAsWell(String which) throws Exception {
        shouldRefuseAJavaThatAUserCanChange(which);
    }

    // ---- downloads of a source tree
    // -----------------------------------------------------------------------------------

    private String cache(String... environment) throws Exception {
        List<String> words = new ArrayList<>(List.of("env", "-i", "PATH=" + PATH));
        words.addAll(List.of(environment));
        words.addAll(List.of(
                "bash",
                "-c",
                "set -euo pipefail; PPMR_HOME=$1; fail() { echo \"$*\"; exit 1; }; installed() { false; };"
                        + " started_by_unit() { false; }; . \"$1/scripts/owners.sh\"; find_cache; echo \"$cache\"",
                "bash",
                HOME.toString()));
        return Command.of(words).run(LIMIT).requireOutput().strip();
    }

    @Tag("soak")
    @Test
    void shouldKeepDownloadsInNoFolderOfOthersWhenTheEnvironmentNamesOne() throws Exception {
        Path homes = Files.createDirectory(base.resolve("home"));
        Path users = Files.createDirectory(homes.resolve("user"));
        String without = cache();
        assertFalse(without.startsWith("/tmp/") || without.startsWith("/var/tmp/"), without);
        assertEquals(homes + "/.cache/ppmr", cache("HOME=" + homes));
        assertEquals(homes + "/c/ppmr", cache("XDG_CACHE_HOME=" + homes + "/c"));
        Files.setAttribute(users, "unix:uid", USER);
        for (String foreign : List.of("/tmp/ppmr-test", "/var/tmp/ppmr-test", users.toString(), shared + "/x")) {
            assertEquals(without, cache("HOME=" + foreign), foreign);
            assertEquals(without, cache("XDG_CACHE_HOME=" + foreign), foreign);
        }
        Path link = Files.createSymbolicLink(homes.resolve("link"), users);
        assertEquals(without, cache("XDG_CACHE_HOME=" + link));
    }

    // ---- commands of the configuration
    // --------------------------------------------------------------------------------

    private Path configuration(Path health) throws Exception {
        Path bin = Files.createDirectories(base.resolve("bin"));
        for (String tool : List.of("cr_checkpoint", "cr_restart")) {
            Files.copy(HOME.resolve("ppmr-checkpoint/target/native-test").resolve(tool), bin.resolve(tool));
            allow(bin.resolve(tool), "rwxr-xr-x");
        }
        Path key = base.resolve("key");
        PpmrCommand made = PpmrCommand.run("keygen", key.toString());
        assertEquals(0, made.exitCode(), made.said());
        return Files.writeString(base.resolve("source.toml"), """
                mount = "%1$s/mount"
                work_directory = "%1$s/work"
                journal = "%1$s/journal"
                key_file = "%1$s/key"
                control_socket = "%1$s/socket"
                trigger_job = "a"
                warm_up_migrations = 0
                [target]
                address = "127.0.0.1:9"
                [triggers]
                health = ["%2$s"]
                [jobs.a]
                user = 4711
                group = 4711
                checkpointer = "blcr"
                ranks = [{rank = 0, pid = 4711}]
                [checkpointers.blcr]
                type = "blcr"
                checkpoint_program = "%1$s/bin/cr_checkpoint"
                restart_program = "%1$s/bin/cr_restart"
                kernel_module = false
                """.formatted(base, health));
    }

    private Path health() throws IOException {
        Path health = Files.writeString(base.resolve("health"), "#!/bin/sh\nexit 0\n");
        allow(health, "rwxr-xr-x");
        return health;
    }

    @ParameterizedTest
    @ValueSource(strings = {"opt/ppmr/lib"})
    void shouldNotStartAndNameWhatAUserCanChangeOfWhatRootRuns(String changed) throws Exception {
        Path configuration = configuration(health());
        Files.setAttribute(base.resolve(changed), "unix:uid", USER);
        Command.CommandResult result =
                run("env", "-i", "PATH=" + PATH, tree + "/ppmr", "source", "--config", "" + configuration);
        assertEquals(2, result.exitCode(), result.describe());
        assertTrue(result.output().contains("the service does not start"), result.output());
        assertTrue(result.output().contains(base.resolve(changed) + ""), result.output());
        assertTrue(result.output().contains("belongs to user " + USER), result.output());
        assertTrue(result.output().contains("Remedy: "), result.output());
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"health", "bin/cr_restart", "opt"})
    void shouldNotStartAndNameWhatAUserCanChangeOfWhatRootRunsAsWell(String changed) throws Exception {
        shouldNotStartAndNameWhatAUserCanChangeOfWhatRootRuns(changed);
    }

    @Test
    void shouldStartWhenAllThatRootRunsIsRoots() throws Exception {
        Path configuration = configuration(health());
        Path log = base.resolve("log");
        Process service = new ProcessBuilder(
                        "env", "-i", "PATH=" + PATH, tree + "/ppmr", "source", "--config", "" + configuration)
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
        try {
            Conditions.until(LIMIT, "the service is ready", () -> {
                assertTrue(service.isAlive(), () -> said(log));
                return said(log).lines().anyMatch("ready"::equals);
            });
        } finally {
            service.destroy();
            service.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS);
            service.destroyForcibly();
        }
    }

    private static String said(Path log) {
        try {
            return Files.readString(log);
        } catch (IOException e) {
            return e.toString();
        }
    }
}
