package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.LibC;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests {@code ppmr install-criu} without a network: the packages are those that the setup of this machine downloaded,
 * and the mirror is a directory.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class InstallCriuIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final String SCRIPT =
            HOME.resolve("ppmr-checkpoint/src/main/sh/install-criu.sh").toString();
    private static final String SUMS = "SHA256SUMS";
    private static final String REMEDY = "Remedy: make the folder with ppmr install-criu --download-only DIR";

    @TempDir
    private Path folder;

    /** A directory as --download-only fills it. */
    private Path packages;

    @BeforeEach
    void copyPackages() throws IOException, InterruptedException {
        String words = System.getenv().getOrDefault("PPMR_CRIU", "");
        Assumptions.assumeTrue(!words.isBlank(), "needs CRIU (./ppmr setup)");
        Path root = Path.of(words.lines().findFirst().orElseThrow());
        while (root != null && !Files.isDirectory(root.resolve("debs"))) {
            root = root.getParent();
        }
        Assumptions.assumeTrue(root != null, "needs the packages that install-criu.sh downloaded");
        packages = Files.createDirectory(folder.resolve("packages"));
        for (Path deb : debs(root.resolve("debs"))) {
            Files.copy(deb, packages.resolve(deb.getFileName()));
        }
        writeSums();
    }

    private static List<Path> debs(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(file -> file.toString().endsWith(".deb"))
                    .sorted()
                    .toList();
        }
    }

    private void writeSums() throws IOException, InterruptedException {
        Files.writeString(
                packages.resolve(SUMS), run("sh", "-c", "cd \"$1\" && sha256sum *.deb", "sh", packages.toString()));
    }

    private Path criu() throws IOException {
        return debs(packages).stream()
                .filter(deb -> deb.getFileName().toString().startsWith("criu_"))
                .findFirst()
                .orElseThrow();
    }

    private Path library() throws IOException {
        return debs(packages).stream()
                .filter(deb -> deb.getFileName().toString().startsWith("lib"))
                .findFirst()
                .orElseThrow();
    }

    private static String run(String... words) throws IOException, InterruptedException {
        return Command.of(List.of(words)).run(LIMIT).requireOutput();
    }

    private static Command.CommandResult install(Path directory, Object... words)
            throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(List.of(SCRIPT, directory.toString()));
        for (Object word : words) {
            all.add(word.toString());
        }
        return Command.of(all).run(LIMIT);
    }

    /** Requires that the words start the CRIU in a directory. */
    private static void requireRuns(Path directory, String words) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(words.lines().toList());
        assertEquals(directory.resolve("root/usr/sbin/criu").toString(), command.get(command.size() - 1), words);
        command.add("--version");
        String version = run(command.toArray(String[]::new));
        assertTrue(version.contains("Version: 4."), version);
    }

    private void requireRefused(String cause, Object... from) throws IOException, InterruptedException {
        Path directory = folder.resolve("refused");
        Command.CommandResult result = install(directory, from);
        assertNotEquals(0, result.exitCode(), result.output());
        assertTrue(result.output().contains(cause), result.output());
        assertTrue(result.output().contains(REMEDY), result.output());
        assertFalse(Files.exists(directory.resolve("root")), "something was unpacked");
        assertFalse(Files.exists(directory.resolve("complete")), "it counts as installed");
    }

    // ---- from files ------------------------------------------------------------------------------------------------

    @Tag("soak")
    @Test
    void shouldPrintTheWordsThatStartItWhenADirectoryOfPackagesIsNamed() throws Exception {
        Path directory = folder.resolve("installed");
        PpmrCommand command = PpmrCommand.run("install-criu", directory.toString(), "--from", packages.toString());
        assertEquals(0, command.exitCode(), command.said());
        requireRuns(directory, command.said());
        // The installed one is found again, and nothing is needed for that.
        assertEquals(command.said(), install(directory).requireOutput());
    }

    @Tag("soak")
    @Test
    void shouldInstallWhenEachFileIsNamed() throws Exception {
        Path directory = folder.resolve("installed");
        List<Object> words = new ArrayList<>(List.of("--from"));
        words.addAll(debs(packages));
        Command.CommandResult result = install(directory, words.toArray());
        assertEquals(0, result.exitCode(), result.output());
        requireRuns(directory, result.output());
    }

    @Test
    void shouldRefuseWhenThePackageOfCriuHasAnotherHash() throws Exception {
        Path changed = criu();
        Files.write(changed, new byte[] {'\n'}, StandardOpenOption.APPEND);
        // The sums are of the one who has changed it: they prove nothing about CRIU.
        writeSums();
        String hash =
                HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(changed)));
        requireRefused(changed + " is not a CRIU that was tested: its SHA-256 is " + hash, "--from", packages);
        requireRefused("is not a CRIU that was tested", "--from", changed);
    }

    @Test
    void shouldRefuseWhenALibraryIsNotTheOneThatTheSumsName() throws Exception {
        Files.write(library(), new byte[] {'\n'}, StandardOpenOption.APPEND);
        requireRefused("is not the file that " + packages.resolve(SUMS) + " names", "--from", packages);
        Files.delete(packages.resolve(SUMS));
        requireRefused("there is no " + packages.resolve(SUMS), "--from", packages);
    }

    @Test
    void shouldRefuseWhenAnotherPackageHasTheHashOfOneThatTheSumsName() throws Exception {
        // A library under another's name would be unpacked in place of it.
        Path library = library();
        Path other = debs(packages).get(debs(packages).size() - 1);
        assertNotEquals(library, other);
        Files.copy(library, other, StandardCopyOption.REPLACE_EXISTING);
        requireRefused(other + " is not the file that", "--from", packages);
    }

    @Tag("soak")
    @Test
    void shouldRefuseWhenNoPackageOfCriuIsAmongTheFiles() throws Exception {
        Files.delete(criu());
        requireRefused("no package of CRIU is among these files", "--from", packages);
        requireRefused("does not exist", "--from", folder.resolve("missing"));
        requireRefused("is no package", "--from", Files.createDirectory(folder.resolve("empty")));
    }

    @Tag("soak")
    @Test
    void shouldKeepTheInstalledOneWhenAnotherIsRefused() throws Exception {
        Path directory = folder.resolve("installed");
        String words = install(directory, "--from", packages).requireOutput();
        Files.write(criu(), new byte[] {'\n'}, StandardOpenOption.APPEND);
        assertNotEquals(0, install(directory, "--from", packages).exitCode());
        assertEquals(words, install(directory).requireOutput());
        requireRuns(directory, words);
    }

    // ---- from a mirror ---------------------------------------------------------------------------------------------

    /** Downloads on a machine whose mirror is a directory, and returns what that printed. */
    private Command.CommandResult download(Path to, String... options) throws IOException, InterruptedException {
        Assumptions.assumeTrue(LibC.isRoot(), "needs root: apt has sources of its own in a mount namespace");
        for (String tool : List.of("gpg", "dpkg-scanpackages")) {
            Assumptions.assumeTrue(Files.exists(Path.of("/usr/bin", tool)), "needs " + tool);
        }
        List<String> words = Command.words(
                "unshare --mount --net --propagation private %s",
                HOME.resolve("ppmr-system-tests/src/test/sh/with-mirror.sh"));
        words.addAll(List.of(options));
        words.addAll(List.of(
                packages.toString(), folder.resolve("mirror").toString(), SCRIPT, to.toString(), "--download-only"));
        return Command.of(words).run(LIMIT);
    }

    @Tag("soak")
    @Test
    void shouldFillADirectoryForOtherNodesWhenOnlyDownloading() throws Exception {
        Path downloaded = folder.resolve("downloaded");
        Command.CommandResult result = download(downloaded);
        assertEquals(0, result.exitCode(), result.output());
        for (Path deb : debs(packages)) {
            Path copy = downloaded.resolve(deb.getFileName());
            assertTrue(Files.exists(copy), () -> copy + ": " + result.output());
            assertEquals(-1, Files.mismatch(deb, copy), copy.toString());
        }
        assertFalse(Files.exists(downloaded.resolve("root")), "something was unpacked");
        Path directory = folder.resolve("installed");
        requireRuns(directory, install(directory, "--from", downloaded).requireOutput());
    }

    @Tag("soak")
    @Test
    void shouldDownloadNothingWhenThisMachineDoesNotTrustTheSignatureOfTheMirror() throws Exception {
        Path downloaded = folder.resolve("downloaded");
        Command.CommandResult result = download(downloaded, "--untrusted");
        assertNotEquals(0, result.exitCode(), result.output());
        assertTrue(result.output().contains("upgrade the package debian-archive-keyring"), result.output());
        assertEquals(List.of(), debs(downloaded), result.output());
        Matcher log = Pattern.compile("\\(see ([^)]*)\\)").matcher(result.output());
        assertTrue(log.find(), result.output());
        assertTrue(Files.deleteIfExists(Path.of(log.group(1))), "there is no " + log.group(1));
    }
}
