package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.linux.Command;
import io.ppmr.linux.LibC;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The packages that the build made: what is in them, and what they do when dpkg installs and removes them. */
@Timeout(value = 660, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PackagesIT {
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(9));
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Pattern DEB_LINE =
            Pattern.compile("(\\S{10}) (\\S+) +\\d+ \\S+ \\S+ \\.(\\S*?)/?(?: -> (.*))?");
    private static final Pattern RPM_LINE = Pattern.compile("(\\S{10}) (\\S+) (\\S+) ?(.*)");
    private static final Pattern SYMBOL_VERSION = Pattern.compile("GLIBC_(\\d+)\\.(\\d+)");
    /** It is loaded into CRIU 4 alone, which has a newer C library of its own. */
    private static final Set<String> NEWER_LIBRARY = Set.of("ppmr-criu-limits.so");

    private static final int OLD_LIBRARY = 17;
    private static final Duration ROOT_LIMIT = Patience.of(Duration.ofMinutes(25));
    private static final int NO_ROOT = 77;

    @TempDir
    private Path folder;

    /** A path of a package: its mode as ls(1) prints it, owner and group, and the target of a link. */
    private record Packed(String mode, String owner, String target) {}

    private static String run(String... words) throws IOException, InterruptedException {
        return Command.of(List.of(words)).run(LIMIT).requireOutput();
    }

    private static Map<String, Packed> deb() throws IOException, InterruptedException {
        return deb(BuiltPackages.deb());
    }

    private static Map<String, Packed> deb(Path file) throws IOException, InterruptedException {
        return packed(run("dpkg-deb", "-c", file.toString()), DEB_LINE, 3);
    }

    private static Map<String, Packed> rpm(Path file) throws IOException, InterruptedException {
        String format = "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES} %{FILELINKTOS}\n]";
        return packed(run("rpm", "-qp", "--qf", format, file.toString()), RPM_LINE, 3);
    }

    private static Map<String, Packed> packed(String listing, Pattern pattern, int pathGroup) {
        Map<String, Packed> found = new TreeMap<>();
        listing.lines().forEach(line -> {
            Matcher parts = pattern.matcher(line);
            assertTrue(parts.matches(), line);
            String target = parts.group(4) == null ? "" : parts.group(4);
            found.put(parts.group(pathGroup), new Packed(parts.group(1), parts.group(2), target));
        });
        return found;
    }

    private static String version(Map<String, Packed> files) {
        return files.keySet().stream()
                .filter(path -> path.matches("/usr/lib/ppmr/[0-9.]+"))
                .map(path -> path.substring("/usr/lib/ppmr/".length()))
                .findFirst()
                .orElseThrow();
    }

    /** The scripts refuse a journal that the package cannot read, before any program of it is there. */
    @Test
    void shouldNameTheNewestJournalInTheScriptsWhenTheyRefuseANewerOne() throws Exception {
        String script =
                Files.readString(HOME.resolve("ppmr-packages/src/main/resources/io/ppmr/packages/maintainer.sh"));
        assertTrue(script.contains("\njournal=" + MappedJournal.VERSION + "\n"), "the version in maintainer.sh");
    }

    // ---- content ---------------------------------------------------------------------------------------------------

    @Test
    void shouldHoldTheSameFilesInBothFormatsWhenBuilt() throws Exception {
        Map<String, Packed> deb = new TreeMap<>();
        deb().forEach((path, one) -> deb.put(path.replace("zsh/vendor-completions", "zsh/site-functions"), one));
        requireSame("ppmr", deb, rpm(BuiltPackages.rpm()));
        requireSame("ppmr-demo", deb(BuiltPackages.demoDeb()), rpm(BuiltPackages.demoRpm()));
    }

    private static void requireSame(String name, Map<String, Packed> deb, Map<String, Packed> rpm) {
        Set<String> onlyDeb = new TreeSet<>(deb.keySet());
        onlyDeb.removeAll(rpm.keySet());
        // Directories of others are in the one format alone, and so is what Debian's own tools read.
        onlyDeb.removeIf(path -> deb.get(path).mode().startsWith("d"));
        assertEquals(
                Set.of("/usr/share/doc/" + name + "/changelog.gz", "/usr/share/lintian/overrides/" + name), onlyDeb);
        rpm.forEach((path, one) -> assertEquals(one, deb.get(path), path));
    }

    @Test
    void shouldHoldTheJobsOfTheDemoInAPackageOfTheSameVersionWhenBuilt() throws Exception {
        Map<String, Packed> files = deb(BuiltPackages.demoDeb());
        String tree = "/usr/lib/ppmr-demo/" + version(deb());
        Map<String, String> expected = new TreeMap<>(Map.of(
                tree + "/lib/ppmr-testbed.jar", "-rw-r--r--",
                tree + "/native/old-kernel-proc.so", "-rw-r--r--",
                tree + "/sources/mpi-ring.c", "-rw-r--r--"));
        for (String job : List.of("cr_checkpoint", "cr_restart", "old-kernel", "plain-job", "selfckpt-job")) {
            expected.put(tree + "/native/" + job, "-rwxr-xr-x");
        }
        Map<String, String> found = new TreeMap<>();
        files.forEach((path, one) -> {
            assertEquals("root/root", one.owner(), path);
            if (path.startsWith(tree) && !one.mode().startsWith("d")) {
                found.put(path, one.mode());
            }
        });
        assertEquals(expected, found);
        String same = "ppmr (= " + version(deb()) + "), ";
        String depends = run("dpkg-deb", "-f", BuiltPackages.demoDeb().toString(), "Depends");
        assertTrue(depends.startsWith(same), depends);
        String requires =
                run("rpm", "-qp", "--requires", BuiltPackages.demoRpm().toString());
        assertTrue(requires.contains("ppmr = " + version(deb()) + "\n"), requires);
    }

    @Test
    void shouldGiveEachFileItsModeWhenBuilt() throws Exception {
        Map<String, Packed> files = deb();
        String tree = "/usr/lib/ppmr/" + version(files);
        Set<String> programs = new TreeSet<>();
        files.forEach((path, one) -> {
            assertEquals("root/root", one.owner(), path);
            switch (one.mode().charAt(0)) {
                case 'd' -> assertEquals("drwxr-xr-x", one.mode(), path);
                case 'l' -> assertEquals("lrwxrwxrwx", one.mode(), path);
                default -> {
                    if (one.mode().contains("x")) {
                        programs.add(path + " " + one.mode());
                    } else {
                        assertEquals("-rw-r--r--", one.mode(), path);
                    }
                }
            }
        });
        Set<String> expected = new TreeSet<>();
        for (String name : List.of(
                "ppmr", "scripts/install-criu.sh", "conf/slurm-job.sh", "conf/slurm-health.sh", "conf/pod-agent.sh")) {
            expected.add(tree + "/" + name + " -rwxr-xr-x");
        }
        for (String name : List.of("launch", "pages", "place", "rank-init", "client", "slurm-task")) {
            expected.add(tree + "/native/ppmr-" + name + " -rwxr-xr-x");
        }
        for (String name : List.of("enter", "init", "net")) {
            expected.add(tree + "/native/ppmr-pod-" + name + " -rwxr-xr-x");
        }
        expected.add(tree + "/native/ppmr-look -rwx--x--x");
        assertEquals(expected, programs);
        assertEquals(
                new Packed("lrwxrwxrwx", "root/root", "../lib/ppmr/" + version(files) + "/ppmr"),
                files.get("/usr/bin/ppmr"));
        assertFalse(
                files.keySet().stream().anyMatch(path -> path.startsWith("/etc/ppmr/")), "the administrator's files");
        for (String path : List.of(
                "man/man1/ppmr.1.gz",
                "man/man1/ppmr-migrate.1.gz",
                "man/man5/ppmr-source.toml.5.gz",
                "bash-completion/completions/ppmr",
                "zsh/vendor-completions/_ppmr",
                "doc/ppmr/copyright",
                "doc/ppmr/licences.txt",
                "doc/ppmr/ppmr.cdx.json",
                "doc/ppmr/admin/install.md",
                "doc/ppmr/examples/source.toml")) {
            assertTrue(files.containsKey("/usr/share/" + path), path);
        }
        for (String unit : List.of("ppmr-source.service", "ppmr-target.service", "ppmr-controller.service")) {
            assertTrue(files.containsKey("/usr/lib/systemd/system/" + unit), unit);
        }
    }

    @Test
    void shouldHoldTheJarsThatServicesWereTestedWithWhenBuilt() throws Exception {
        Set<String> tested = new TreeSet<>();
        try (Stream<Path> modules = Files.list(HOME)) {
            for (Path module : modules.sorted().toList()) {
                boolean isPart = Files.exists(
                        module.resolve("src/main/resources/META-INF/services/io.ppmr.daemon.part.ServicePart"));
                if (isPart || module.endsWith("ppmr-cli")) {
                    tested.addAll(names(module.resolve("target/lib"), ".jar"));
                    tested.add(module.getFileName() + "-" + version(deb()) + ".jar");
                }
            }
        }
        assertEquals(tested, names(BuiltPackages.folder().resolve("jars"), ".jar"));
        Set<String> packed = deb().keySet().stream()
                .filter(path -> path.endsWith(".jar"))
                .map(path -> path.substring(path.lastIndexOf('/') + 1))
                .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(tested, packed);
    }

    private static Set<String> names(Path directory, String end) throws IOException {
        if (!Files.isDirectory(directory)) {
            return Set.of();
        }
        try (Stream<Path> files = Files.list(directory)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith(end) && !name.startsWith("."))
                    .collect(Collectors.toCollection(TreeSet::new));
        }
    }

    @Test
    void shouldNeedNoNewerCLibraryThanThatOf2012WhenBuilt() throws Exception {
        Path natives = BuiltPackages.folder().resolve("natives");
        for (String name : names(natives, "")) {
            String file = natives.resolve(name).toString();
            if (!name.endsWith(".so")) {
                assertFalse(run("readelf", "-lW", file).contains("INTERP"), name + " is linked statically");
            } else if (!NEWER_LIBRARY.contains(name)) {
                requireOldLibrary(name, file);
            }
        }
        for (String jar : names(BuiltPackages.folder().resolve("jars"), ".jar")) {
            try (ZipFile zip = new ZipFile(
                    BuiltPackages.folder().resolve("jars").resolve(jar).toFile())) {
                List<? extends ZipEntry> entries = zip.stream()
                        .filter(one -> one.getName().endsWith(".so"))
                        .filter(one -> one.getName().matches("(?i).*linux.*(x86_64|x86-64|amd64).*"))
                        .filter(one -> !one.getName().matches("(?i).*(android|musl).*"))
                        .toList();
                for (ZipEntry entry : entries) {
                    Path library = folder.resolve("library.so");
                    try (InputStream in = zip.getInputStream(entry)) {
                        Files.write(library, in.readAllBytes());
                    }
                    requireOldLibrary(jar + "!" + entry.getName(), library.toString());
                }
            }
        }
    }

    private static void requireOldLibrary(String name, String file) throws IOException, InterruptedException {
        Matcher versions = SYMBOL_VERSION.matcher(run("objdump", "-T", file));
        while (versions.find()) {
            boolean old =
                    Integer.parseInt(versions.group(1)) == 2 && Integer.parseInt(versions.group(2)) <= OLD_LIBRARY;
            assertTrue(old, name + " needs " + versions.group());
        }
    }

    @Test
    void shouldNameEachPartInTheBillOfMaterialsWhenBuilt() throws Exception {
        JsonNode bill = new ObjectMapper()
                .readTree(BuiltPackages.folder().resolve("made/ppmr.cdx.json").toFile());
        assertEquals("CycloneDX", bill.get("bomFormat").asText());
        Map<String, String> hashes = new TreeMap<>();
        Set<String> versions = new TreeSet<>();
        for (JsonNode component : bill.get("components")) {
            versions.add(component.get("name").asText() + "-"
                    + component.path("version").asText());
            for (JsonNode hash : component.path("hashes")) {
                if (hash.get("alg").asText().equals("SHA-256")) {
                    hashes.put(
                            component.get("name").asText(), hash.get("content").asText());
                }
            }
        }
        for (String jar : names(BuiltPackages.folder().resolve("jars"), ".jar")) {
            String base = jar.replaceFirst("(-native|-linux-x86_64)?\\.jar$", "");
            assertTrue(versions.contains(base), jar + " is not in the bill of materials");
        }
        Path natives = BuiltPackages.folder().resolve("natives");
        for (String name : names(natives, "")) {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(natives.resolve(name)));
            assertEquals(HexFormat.of().formatHex(digest), hashes.get(name), name);
        }
        assertTrue(versions.stream().anyMatch(name -> name.startsWith("glibc-2.")), "the C library");
    }

    // ---- scripts ---------------------------------------------------------------------------------------------------

    @Test
    void shouldCallTheSameScriptInBothFormatsWhenBuilt() throws Exception {
        Path control = folder.resolve("control");
        run("dpkg-deb", "-e", BuiltPackages.deb().toString(), control.toString());
        for (Map.Entry<String, String> stage : Map.of(
                        "preinst", "PREIN", "postinst", "POSTIN", "prerm", "PREUN", "postrm", "POSTUN")
                .entrySet()) {
            String ofRpm = run(
                    "rpm",
                    "-qp",
                    "--qf",
                    "%{" + stage.getValue() + "}",
                    BuiltPackages.rpm().toString());
            String ofDeb = Files.readString(control.resolve(stage.getKey()));
            assertEquals(ofDeb.replace("format=deb", "format=rpm").strip(), ofRpm.strip(), stage.getKey());
            assertTrue(ofDeb.contains("stage=" + stage.getKey() + "\n"), ofDeb);
            run("sh", "-n", control.resolve(stage.getKey()).toString());
        }
    }

    @Test
    void shouldRefuseWhatEndsAJobAndLeaveNothingWhenDpkgInstallsUpgradesAndRemoves() throws Exception {
        scenario("package-scenario.sh", BuiltPackages.deb(), BuiltPackages.demoDeb(), openJournal(), Path.of("short"));
    }

    @Tag("soak")
    @Test
    void shouldRefuseADowngradeThatCouldNotReadAJournalAndARemovalWithoutJava() throws Exception {
        scenario("package-scenario.sh", BuiltPackages.deb(), BuiltPackages.demoDeb(), openJournal());
    }

    @Test
    void shouldHaveItsFilesAndRefuseWhatEndsAJobWhenRpmInstallsAndRemoves() throws Exception {
        scenario("package-rpm.sh", BuiltPackages.rpm(), openJournal());
    }

    @Tag("soak")
    @Test
    void shouldReplaceOneVersionByAnotherUnlessAMigrationIsOpenWhenRpmUpgradesAndDowngrades() throws Exception {
        scenario("package-rpm.sh", BuiltPackages.rpm(), openJournal(), olderRpm());
    }

    /** Runs a script of src/test/sh in namespaces of its own. */
    private static void scenario(String script, Path... arguments) throws IOException, InterruptedException {
        Assumptions.assumeTrue(LibC.isRoot(), "needs root: it makes an overlay of this machine's root");
        List<String> words = Command.words(
                "unshare --mount --net --pid --fork --kill-child --propagation private %s",
                HOME.resolve("ppmr-system-tests/src/test/sh").resolve(script));
        for (Path argument : arguments) {
            words.add(argument.toString());
        }
        Command.CommandResult result = Command.of(words).run(LIMIT);
        assertEquals(0, result.exitCode(), result.output());
    }

    /** Makes a journal with an open migration. */
    private Path openJournal() throws IOException {
        Path journal = Files.createDirectory(folder.resolve("journal"));
        try (MappedJournal open = MappedJournal.open(journal.resolve(MappedJournal.FILE_NAME))) {
            open.append(new TransactionRecord.Requested("m1", 0, "uid 1000", "solver", ""));
            open.appendSynced(new TransactionRecord.Begun("m1", 1, List.of("spare1:7"), List.of()));
        }
        return journal;
    }

    /** Makes a package of the same code with a lower number. */
    private Path olderRpm() throws IOException, InterruptedException {
        String old = "0.0.9";
        Path built = Files.createDirectory(folder.resolve("built"));
        for (String part : List.of("jars", "natives", "pages", "demo", "bom.json")) {
            run("cp", "-a", BuiltPackages.folder().resolve(part).toString(), built.toString());
        }
        String end = "-" + version(deb()) + ".jar";
        for (String jar : names(built.resolve("jars"), end)) {
            if (jar.startsWith("ppmr-")) {
                Path file = built.resolve("jars").resolve(jar);
                Files.move(file, file.resolveSibling(jar.replace(end, "-" + old + ".jar")));
            }
        }
        Path packer = HOME.resolve("ppmr-packages/target");
        run(
                System.getProperty("java.home") + "/bin/java",
                "-classpath",
                packer.resolve("classes") + ":" + packer.resolve("lib") + "/*",
                "io.ppmr.packages.PackageBuild",
                HOME.toString(),
                built.toString(),
                old,
                "commit=",
                "2026-01-01T00:00:00Z");
        return built.resolve("ppmr-" + old + "-1.x86_64.rpm");
    }

    /** Installs the packages in a bare root of Debian, in which there is neither Java nor FUSE, and runs the demo. */
    @Tag("soak")
    @Timeout(value = 1800, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    @ParameterizedTest
    @ValueSource(strings = {"bookworm", "trixie"})
    void shouldRequireAllThatItNeedsWhenAptInstallsItInABareRoot(String suite) throws Exception {
        Assumptions.assumeTrue(LibC.isRoot(), "needs root: it makes a root of Debian");
        Assumptions.assumeTrue(Files.exists(Path.of("/usr/sbin/debootstrap")), "needs debootstrap");
        Command.CommandResult result = Command.of(List.of(
                        "unshare",
                        "--mount",
                        "--propagation",
                        "private",
                        HOME.resolve("ppmr-system-tests/src/test/sh/package-root.sh")
                                .toString(),
                        suite,
                        BuiltPackages.deb().toString(),
                        BuiltPackages.demoDeb().toString(),
                        folder.resolve("root").toString()))
                .run(ROOT_LIMIT);
        Assumptions.assumeTrue(result.exitCode() != NO_ROOT, result.output());
        assertEquals(0, result.exitCode(), result.output());
    }

    // ---- the checks of the distributions ---------------------------------------------------------------------------

    @Tag("soak")
    @Test
    void shouldReportNothingWhenTheDistributionsToolsLook() throws Exception {
        Assumptions.assumeTrue(
                Files.exists(Path.of("/usr/bin/lintian")) && Files.exists(Path.of("/usr/bin/rpmlint")),
                "needs lintian and rpmlint");
        for (Path deb : List.of(BuiltPackages.deb(), BuiltPackages.demoDeb())) {
            assertEquals("", run("lintian", "--allow-root", deb.toString()));
        }
        for (Map.Entry<String, Path> rpm : Map.of("ppmr", BuiltPackages.rpm(), "ppmr-demo", BuiltPackages.demoRpm())
                .entrySet()) {
            String arguments = "ppmr-product/src/main/rpmlint/" + rpm.getKey() + ".rpmlintrc";
            String checked = run(
                    "rpmlint",
                    "-r",
                    HOME.resolve(arguments).toString(),
                    rpm.getValue().toString());
            assertTrue(checked.contains("0 errors, 0 warnings"), checked);
        }
    }

    // ---- two builds ------------------------------------------------------------------------------------------------

    /** Builds the commit twice, each time in a clone of its own. */
    @Tag("soak")
    @Timeout(value = 3600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    @Test
    void shouldWriteTheSameBytesWhenBuiltInAnotherFolderWithAnotherUmaskLocaleAndZone() throws Exception {
        Assumptions.assumeTrue(Files.exists(HOME.resolve(".git")), "needs a clone of the repository");
        Path one = folder.resolve("one");
        Path other = folder.resolve("in/another/folder/other");
        String first = built(one, "umask 022; export LC_ALL=C.UTF-8 TZ=UTC");
        assertEquals(first, built(other, "umask 077; export LC_ALL=C TZ=Asia/Tokyo"));
    }

    /** Builds the packages of a clone, and returns their hashes. */
    private static String built(Path clone, String surroundings) throws IOException, InterruptedException {
        String script = surroundings + "; git clone -q \"$1\" \"$2\"; cd \"$2\"; ./ppmr package >package.log 2>&1"
                + " || { cat package.log; exit 1; }; cd ppmr-product/target; sha256sum *.deb *.rpm";
        return Command.of(List.of("bash", "-ec", script, "bash", HOME.toString(), clone.toString()))
                .run(ROOT_LIMIT)
                .requireOutput();
    }
}
