package io.ppmr.cli.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A small tree that is installed under a folder which replaces the root. */
class InstallationTest {
    private static final Path PREFIX = Path.of("/opt/ppmr");
    private static final String PART = "src/main/resources/META-INF/services/io.ppmr.daemon.part.ServicePart";

    @TempDir
    private Path directory;

    private Path home;
    private Path root;
    private final List<String> told = new ArrayList<>();
    private int systemdRelease = 252;

    @BeforeEach
    void makeTree() throws IOException {
        home = directory.resolve("home");
        root = directory.resolve("root");
        write("ppmr", "#!/bin/bash\n");
        write("conf/jvm.properties", "_JAVA_SR_SIGNUM=40\n");
        write("ppmr-extra/" + PART, "");
        write("ppmr-extra/conf/health.sh", "#!/bin/bash\n");
        write("ppmr-extra/target/ppmr-extra-1.jar", "extra");
        write("conf/source.toml", "source");
        write("conf/target.toml", "target");
        write("scripts/setup.sh", "setup");
        write("docs/admin/index.md", "docs");
        write("ppmr-cli/target/lib/a.jar", "a");
        write("ppmr-cli/target/ppmr-cli-1.jar", "cli");
        write("ppmr-checkpoint/target/native/ppmr-launch", "launch");
        assertTrue(home.resolve("ppmr-checkpoint/target/native/ppmr-launch")
                .toFile()
                .setExecutable(true));
        write("ppmr-checkpoint/target/native/ppmr-look", "look");
        Files.setPosixFilePermissions(
                home.resolve("ppmr-checkpoint/target/native/ppmr-look"), PosixFilePermissions.fromString("rwx--x--x"));
        for (String unit : List.of("ppmr-source.service", "ppmr-target.service")) {
            write("systemd/" + unit, "ExecStart=@PREFIX@/ppmr --config @CONFIG@/x\n");
        }
        write("systemd/ppmr.sysusers.conf", "g ppmr -\n");
        write("systemd/ppmr.tmpfiles.conf", "d /run/ppmr\n");
        Files.createDirectories(root.resolve("etc/systemd/system"));
        Files.writeString(root.resolve("etc/systemd/system/other.service"), "another's");
    }

    private void write(String file, String text) throws IOException {
        Path path = home.resolve(file);
        Files.createDirectories(path.getParent());
        Files.writeString(path, text);
    }

    private void install() throws IOException {
        new Installation(root, PREFIX, systemdRelease, told::add)
                .install(home, Map.of(Path.of("/usr/share/man/man1/ppmr.1"), "manual"));
    }

    private void uninstall() throws IOException {
        new Installation(root, PREFIX, systemdRelease, told::add).uninstall();
    }

    private List<String> everything() throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            return files.map(path -> root.relativize(path).toString()).sorted().toList();
        }
    }

    @Test
    void shouldPutEverythingInPlace() throws IOException {
        install();
        assertEquals(
                "ExecStart=/opt/ppmr/ppmr --config /etc/ppmr/x\n",
                Files.readString(root.resolve("etc/systemd/system/ppmr-target.service")));
        assertTrue(Files.isExecutable(root.resolve("opt/ppmr/native/ppmr-launch")));
        assertEquals(
                "rwx--x--x",
                PosixFilePermissions.toString(
                        Files.getPosixFilePermissions(root.resolve("opt/ppmr/native/ppmr-look"))));
        assertTrue(Files.isExecutable(root.resolve("opt/ppmr/ppmr")));
        assertTrue(Files.isExecutable(root.resolve("opt/ppmr/conf/health.sh")));
        assertEquals("extra", Files.readString(root.resolve("opt/ppmr/lib/ppmr-extra-1.jar")));
        assertFalse(Files.isExecutable(root.resolve("opt/ppmr/lib/ppmr-cli-1.jar")));
        assertEquals("source", Files.readString(root.resolve("etc/ppmr/source.toml")));
        assertEquals(List.of(), told);
    }

    @Test
    void shouldTakeAwayExactlyWhatItPutThere() throws IOException {
        List<String> before = everything();
        install();
        uninstall();
        assertEquals(before, everything());
        assertEquals(List.of(), told);
    }

    @Test
    void shouldKeepWhatAnOperatorHasChangedOrAdded() throws IOException {
        install();
        Files.writeString(root.resolve("etc/ppmr/source.toml"), "mine");
        Files.writeString(root.resolve("etc/ppmr/key"), "secret");
        uninstall();
        assertEquals("mine", Files.readString(root.resolve("etc/ppmr/source.toml")));
        assertEquals("secret", Files.readString(root.resolve("etc/ppmr/key")));
        assertFalse(Files.exists(root.resolve("etc/ppmr/target.toml")));
        assertFalse(Files.exists(root.resolve("opt")));
        assertEquals(2, told.size(), told.toString());
        assertTrue(told.get(0).contains("source.toml stays: it was changed"), told.toString());
        assertTrue(told.get(1).contains("etc/ppmr stays"), told.toString());
    }

    @Test
    void shouldReplaceAnOlderOneAndKeepItsConfiguration() throws IOException {
        List<String> before = everything();
        install();
        Files.writeString(root.resolve("etc/ppmr/source.toml"), "mine");
        Files.delete(home.resolve("ppmr-cli/target/lib/a.jar"));
        write("ppmr-cli/target/lib/b.jar", "b");
        write("conf/source.toml", "newer");
        write("conf/target.toml", "newer");
        install();
        assertFalse(Files.exists(root.resolve("opt/ppmr/lib/a.jar")), "what the older one had is gone");
        assertEquals("b", Files.readString(root.resolve("opt/ppmr/lib/b.jar")));
        assertEquals("mine", Files.readString(root.resolve("etc/ppmr/source.toml")));
        assertEquals("newer", Files.readString(root.resolve("etc/ppmr/target.toml")), "an example that nobody changed");
        assertEquals("newer", Files.readString(root.resolve("opt/ppmr/conf/source.toml")));
        assertTrue(told.get(0).contains("source.toml is kept as it is"), told.toString());
        Files.delete(root.resolve("etc/ppmr/source.toml"));
        uninstall();
        assertEquals(before, everything(), "the folders of the first installation, too");
    }

    // ---- an older systemd --------------------------------------------------------------------------------------

    private String unitFor(int release) throws IOException {
        for (String unit : List.of("ppmr-source.service", "ppmr-target.service")) {
            Files.copy(
                    Path.of("../systemd").resolve(unit),
                    home.resolve("systemd").resolve(unit),
                    StandardCopyOption.REPLACE_EXISTING);
        }
        systemdRelease = release;
        install();
        return Files.readString(root.resolve("etc/systemd/system/ppmr-source.service"));
    }

    @Test
    void shouldLeaveOutNothingWhenSystemdKnowsAll() throws IOException {
        String whole = Files.readString(Path.of("../systemd/ppmr-source.service"))
                .replace("@PREFIX@", "/opt/ppmr")
                .replace("@CONFIG@", "/etc/ppmr");
        assertEquals(whole, unitFor(252));
        assertEquals(List.of(), told);
    }

    @Test
    void shouldLeaveOutWhatSystemd219DoesNotKnowOrWouldHoldJobsTo() throws IOException {
        String unit = unitFor(219);
        for (String unknown : List.of(
                "StartLimitIntervalSec=",
                "TimeoutAbortSec=",
                "TasksMax=",
                "ProtectClock=",
                "RestrictNamespaces=",
                "KeyringMode=",
                "SystemCallFilter=",
                "CapabilityBoundingSet=",
                "NoNewPrivileges=",
                "DevicePolicy=",
                "PPMR_COMMANDS=transient",
                "Wants=modprobe@",
                "After=modprobe@")) {
            assertFalse(unit.contains("\n" + unknown), unknown);
        }
        for (String kept : List.of(
                "Type=notify",
                "WatchdogSec=60s",
                "KillMode=process",
                "Environment=PPMR_COMMANDS=direct",
                "TimeoutStartSec=6min",
                "LimitMEMLOCK=infinity",
                "LimitNOFILE=65536")) {
            assertTrue(unit.contains("\n" + kept + "\n"), kept + " is not in " + unit);
        }
        assertEquals(3, told.size());
        assertTrue(told.get(0).contains("for systemd 219: left out are StartLimitIntervalSec, "), told.get(0));
    }

    private static final Path MODULES = Path.of("etc/modules-load.d/ppmr.conf");

    @Test
    void shouldHaveModulesLoadedAtBootWhenAUnitCannotWantThem() throws IOException {
        List<String> before = everything();
        for (int release : List.of(219, 244)) {
            assertFalse(unitFor(release).contains("modprobe"), "release " + release);
            assertEquals(
                    List.of("ib_uverbs", "ipmi_devintf", "rdma_ucm"),
                    Files.readAllLines(root.resolve(MODULES)).stream()
                            .filter(line -> !line.startsWith("#"))
                            .toList());
            assertTrue(
                    told.get(told.size() - 1).endsWith("modprobe -a ib_uverbs ipmi_devintf rdma_ucm"), told.toString());
        }
        uninstall();
        assertEquals(before, everything());
    }

    @Test
    void shouldWantModulesInTheUnitsAndNowhereElseWhenSystemdCan() throws IOException {
        unitFor(244);
        for (String unit : List.of("ppmr-source.service", "ppmr-target.service")) {
            unitFor(245);
            String text = Files.readString(root.resolve("etc/systemd/system").resolve(unit));
            for (String word : List.of("Wants", "After")) {
                assertTrue(
                        text.contains("\n" + word + "=modprobe@ib_uverbs.service modprobe@rdma_ucm.service"
                                + " modprobe@ipmi_devintf.service\n"),
                        "before the units' DeviceAllow is resolved: " + text);
            }
        }
        assertFalse(Files.exists(root.resolve(MODULES)), "what the older installation had is gone");
    }

    @Test
    void shouldKeepTheHardeningWhenSystemdStartsTheCommands() throws IOException {
        String unit = unitFor(243);
        assertTrue(unit.contains("\nSystemCallFilter=@system-service @mount\n"), unit);
        assertTrue(unit.contains("\nEnvironment=PPMR_COMMANDS=transient\n"), unit);
        assertTrue(unit.contains("\nKillMode=mixed\n"), unit);
        assertFalse(unit.contains("\nProtectClock="), unit);
        assertTrue(told.get(0).endsWith("left out are ProtectClock"), told.get(0));
    }

    @Test
    void shouldReadTheReleaseOutOfWhatSystemctlSays() {
        assertEquals(219, Installation.systemdRelease("systemd 219\n+PAM +AUDIT +SELINUX\n"));
        assertEquals(252, Installation.systemdRelease("systemd 252 (252.39-1~deb12u1)\n"));
        assertEquals(Integer.MAX_VALUE, Installation.systemdRelease("no such thing"));
    }
}
