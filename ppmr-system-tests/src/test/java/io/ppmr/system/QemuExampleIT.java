package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The example in docs/examples/qemu: a guest that prints the alphabet repeatedly, and continues where it was. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class QemuExampleIT {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path SCRIPTS = HOME.resolve("docs/examples/qemu");
    private static final String QEMU = "/usr/bin/qemu-system-x86_64";
    private static final int SECTOR_BYTES = 512;

    /** Prints the next letter at the serial port at each tick of the timer, some 18 a second. */
    private static final byte[] PROGRAM = HexFormat.of()
            .parseHex("31db" + "baf803" + "88d8" + "0441" + "ee" + "43" + "80fb1a" + "7502" + "31db" + "fbf4" + "ebef");

    @TempDir
    private Path directory;

    private Path job;
    private Path said;
    private Process guest;
    private final List<Integer> copies = new ArrayList<>();

    @BeforeEach
    void setUp() throws Exception {
        Assumptions.assumeTrue(Files.isExecutable(Path.of(QEMU)), QEMU + " is missing (package qemu-system-x86)");
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        job = Files.createDirectory(directory.resolve("job"));
        Files.setAttribute(job, "unix:uid", ReplayJob.USER.uid());
        byte[] sector = new byte[SECTOR_BYTES];
        System.arraycopy(PROGRAM, 0, sector, 0, PROGRAM.length);
        sector[SECTOR_BYTES - 2] = 0x55;
        sector[SECTOR_BYTES - 1] = (byte) 0xaa;
        Files.write(job.resolve("disk"), sector);
        said = job.resolve("said");
        // The scripts are installed as at a site, where every user can start them.
        Path installed = Files.createDirectory(directory.resolve("scripts"));
        for (String name : List.of("qemu-monitor", "qemu-rank", "qemu-checkpoint", "qemu-restart")) {
            Files.copy(SCRIPTS.resolve(name), installed.resolve(name));
            Files.setPosixFilePermissions(installed.resolve(name), PosixFilePermissions.fromString("rwxr-xr-x"));
        }
        List<String> words = new ArrayList<>(List.of(
                "setsid",
                "setpriv",
                "--reuid=" + ReplayJob.USER.uid(),
                "--regid=" + ReplayJob.USER.gid(),
                "--clear-groups",
                script("qemu-rank"),
                socket("source")));
        words.addAll(qemu());
        guest = new ProcessBuilder(words)
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(Path.of("/dev/null").toFile())
                .redirectError(Path.of("/dev/null").toFile())
                .start();
        requireLetters();
    }

    private List<String> qemu() {
        return List.of(
                QEMU,
                "-machine",
                "pc,accel=tcg",
                "-m",
                "64",
                "-nodefaults",
                "-display",
                "none",
                "-drive",
                "file=" + job.resolve("disk") + ",format=raw,if=floppy,readonly=on",
                "-chardev",
                "file,id=serial,append=on,path=" + said,
                "-serial",
                "chardev:serial");
    }

    private String script(String name) {
        return directory.resolve("scripts").resolve(name).toString();
    }

    private String socket(String node) {
        return job.resolve(node).toString();
    }

    @AfterEach
    void endAll() {
        copies.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        if (guest != null) {
            guest.descendants().forEach(ProcessHandle::destroyForcibly);
            guest.destroyForcibly();
        }
    }

    private Checkpointer checkpointer() {
        List<String> restart =
                new ArrayList<>(List.of(script("qemu-restart"), "{file}", "{pidfile}", "{work}", socket("target")));
        restart.addAll(qemu());
        return new CheckpointerSettings.CommandTool(
                        List.of(script("qemu-checkpoint"), "{pid}", "{file}", "{work}", socket("source")),
                        restart,
                        ReadingMode.STREAMED,
                        "guest",
                        List.of("guest"),
                        List.of(),
                        Map.of(),
                        RunAs.JOB_USER,
                        false,
                        false,
                        NamespacePolicy.NEVER)
                .create("qemu", new NativePrograms(Path.of(System.getProperty("ppmr.native.dir"))));
    }

    private String letters() throws IOException {
        return Files.exists(said) ? Files.readString(said) : "";
    }

    private void requireLetters() throws Exception {
        int before = letters().length();
        Conditions.until("the guest continues", () -> letters().length() > before + 5);
    }

    /** No letter was left out or printed twice. */
    private void requireAlphabet() throws IOException {
        String all = letters();
        for (int place = 0; place < all.length(); place++) {
            assertEquals((char) ('A' + place % 26), all.charAt(place), all);
        }
    }

    private MigrationReport migrate(ServicePair pair) throws InterruptedException {
        List<Job.RankProcess> ranks = List.of(new Job.RankProcess(0, (int) guest.pid()));
        MigrationReport report =
                pair.source().migrate(new Job("guest", ReplayJob.USER, checkpointer(), ranks), progress -> {});
        report.ranks().forEach(rank -> copies.addAll(rank.pids()));
        return report;
    }

    @Test
    void shouldGoOnWhereItWasWhenTheGuestIsMoved() throws Exception {
        try (ServicePair pair = new ServicePair(directory, ServicePair.Options.with(checkpointer()))) {
            MigrationReport report = migrate(pair);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(guest.waitFor(Patience.of(60), TimeUnit.SECONDS), "the original is gone");
            requireLetters();
            requireAlphabet();
        }
    }

    @Test
    void shouldGoOnHereWhenItWasHeldAndTheRestartFails() throws Exception {
        // It fails when it has read all, so that the original was held.
        Files.writeString(directory.resolve("scripts/qemu-restart"), "#!/bin/sh\ncat \"$1\" >/dev/null\nexit 1\n");
        try (ServicePair pair = new ServicePair(directory, ServicePair.Options.with(checkpointer()))) {
            MigrationReport report = migrate(pair);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            requireLetters();
            requireAlphabet();
        }
    }
}
