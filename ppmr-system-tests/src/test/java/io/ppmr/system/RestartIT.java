package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.target.TargetService;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A job that is restarted from what a migration has kept. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RestartIT {
    private static final int REFUSED = 4;
    /** The exit status of a JVM after SIGTERM. */
    private static final int TERMINATED = 128 + 15;

    @TempDir
    private Path directory;

    private Path copies;

    @BeforeEach
    void makeDirectory() throws IOException {
        copies = Files.createDirectory(directory.resolve("copies"));
        Files.setPosixFilePermissions(copies, PosixFilePermissions.fromString("rwx--x--x"));
    }

    private PpmrCommand restart(String copy, String... options) throws Exception {
        List<String> words = new ArrayList<>(List.of("restart", copy, "--config", config().toString()));
        words.addAll(List.of(options));
        return PpmrCommand.run(words.toArray(String[]::new));
    }

    private Path config() throws IOException {
        Path config = directory.resolve("target.toml");
        Path key = directory.resolve("key");
        if (!Files.exists(key)) {
            Files.createFile(key, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            Files.writeString(key, "a key that only these tests know, 32+\n");
            Files.writeString(
                    config,
                    """
                    unknown_users = true
                    listen = "127.0.0.1:7411"
                    mount = "%1$s/restart-mount"
                    work_directory = "%1$s/restart-work"
                    journal = "%1$s/restart-journal"
                    key_file = "%1$s/key"
                    warm_up_migrations = 0
                    """.formatted(directory)
                            + LedgerJob.checkpointerToml(directory.resolve("job"))
                                    .replace("checkpointers.ledger", "checkpointers.command"));
        }
        return config;
    }

    private static void refused(PpmrCommand command, String... words) {
        assertEquals(REFUSED, command.exitCode(), command.said());
        for (String word : words) {
            assertTrue(command.said().contains(word), command.said());
        }
    }

    @Test
    void shouldRestartWithTheRightResultWhenTheMovedJobIsGone() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = KeepIT.migrate(source, job.job(), Keeping.KeepRequest.in(copies));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.copy().kept(), report.copy().reason());
            assertTrue(report.copy().bytes() > 2 << 20, report.copy().sentence());
            assertTrue(nodes.journal("source").stream()
                    .anyMatch(record -> record instanceof TransactionRecord.CopyEnded copy
                            && copy.kept()
                            && copy.sentence().contains(report.copy().directory())));
            job.runsThere();
            job.killCopies();
            job.cutToSaved();
            Path copy = Path.of(report.copy().directory());
            requireOwnerOnly(copy);
            Path image = copy.resolve("rank-1/image");
            flip(image, 700_001);
            refused(restart(copy.toString()), "rank-1/image", "CRC32C");
            flip(image, 700_001);
            assertEquals(0, job.livingCopies(0), "a refused restart starts nothing");
            refused(restart(copies.toString()), "Use one of the copies in it", copy.toString());
            PpmrCommand restarted = restart(copy.toString());
            assertEquals(0, restarted.exitCode(), restarted.said());
            assertTrue(restarted.said().contains("computes twice"), restarted.said());
            job.runsThere();
            refused(restart(copy.toString()), "was restarted from this copy before");
        }
    }

    private static void requireOwnerOnly(Path copy) throws IOException {
        try (Stream<Path> all = Files.walk(copy)) {
            for (Path path : all.toList()) {
                String mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
                assertTrue(mode.matches(path.equals(copy) ? "rwx--x--x" : "rw.------"), path + " has mode " + mode);
                int owner = (int) Files.getAttribute(path, "unix:uid");
                boolean users = path.startsWith(copy.resolve("rank-0")) || path.startsWith(copy.resolve("rank-1"));
                assertEquals(users ? ReplayJob.USER.uid() : 0, owner, path.toString());
            }
        }
    }

    private static void flip(Path file, int offset) throws IOException {
        byte[] bytes = Files.readAllBytes(file);
        bytes[offset] = (byte) (bytes[offset] ^ 1);
        Files.write(file, bytes);
    }

    @Tag("soak")
    @Test
    void shouldKeepTheCopyWhenTheMigrationIsRolledBackAndRestartOnceTheOriginalsAreGone() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 1)) {
            job.restarts(0, "read 1m", "eof", "open missing r");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = KeepIT.migrate(source, job.job(), Keeping.KeepRequest.in(copies));
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(report.copy().kept(), report.copy().reason());
            job.runsHere();
            job.restarts(0, "read 1m");
            refused(restart(report.copy().directory()), "still lives here as PID " + job.pid(0));
            job.runsHere();
            job.killOriginal(0);
            job.cutToSaved();
            PpmrCommand restarted = restart(report.copy().directory());
            assertEquals(0, restarted.exitCode(), restarted.said());
            job.runsThere();
        }
    }

    @Tag("soak")
    @Test
    void shouldRefuseToRestartWhenACopyIsIncompleteOrARestartFails() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = KeepIT.migrate(source, job.job(), Keeping.KeepRequest.in(copies));
            Path copy = Path.of(report.copy().directory());
            job.runsThere();
            job.killCopies();
            job.cutToSaved();
            Path partial = Files.move(copy, Path.of(copy + ".partial"));
            refused(restart(partial.toString()), "incomplete");
            Files.move(partial, copy);
            job.restarts(1, "open missing r");
            PpmrCommand failed = restart(copy.toString());
            assertEquals(1, failed.exitCode(), failed.said());
            assertTrue(failed.said().contains("rank 1 could not be restarted"), failed.said());
            assertEquals(0, job.livingCopies(0), "all or none are released");
            Files.delete(copy.resolve("rank-1/image"));
            refused(restart(copy.toString()), "rank-1/image is missing");
        }
    }

    // ---- the copy's origin -----------------------------------------------------------------------------------------

    /** Replaces the key of this node. Returns the file with the old key. */
    private Path exchangeKey() throws Exception {
        Path key = config().resolveSibling("key");
        Path former = Files.move(key, directory.resolve("former-key"));
        Files.createFile(key, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(key, "a newer key that only these tests know\n");
        return former;
    }

    @Tag("soak")
    @Test
    void shouldRestartByTheFormerKeyAloneWhenTheNodeHasAnotherOne() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            String copy = keptAndGone(nodes, job);
            Path former = exchangeKey();
            refused(restart(copy), "no service with this node's key has written", "--key-file");
            refused(restart(copy, "--without-digest"), "no service with this node's key has written");
            assertEquals(0, job.livingCopies(0) + job.livingCopies(1), "a refused restart starts nothing");
            PpmrCommand restarted = restart(copy, "--key-file", former.toString());
            assertEquals(0, restarted.exitCode(), restarted.said());
            job.runsThere();
        }
    }

    @Tag("soak")
    @Test
    void shouldRestartWithoutADigestOnlyWhenToldToAndNothingInItIsAStrangers() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            Path copy = Path.of(keptAndGone(nodes, job));
            Files.delete(copy.resolve("manifest.hmac-sha256"));
            refused(restart(copy.toString()), "has no file manifest.hmac-sha256", "--without-digest");
            Path image = copy.resolve("rank-1/image");
            int users = (int) Files.getAttribute(image, "unix:uid");
            Files.setAttribute(image, "unix:uid", users + 1);
            refused(
                    restart(copy.toString(), "--without-digest"),
                    image + " belongs to user " + (users + 1),
                    "it must belong to root or to user " + users);
            Files.setAttribute(image, "unix:uid", users);
            assertEquals(0, job.livingCopies(0) + job.livingCopies(1), "a refused restart starts nothing");
            PpmrCommand restarted = restart(copy.toString(), "--without-digest");
            assertEquals(0, restarted.exitCode(), restarted.said());
            job.runsThere();
        }
    }

    // ---- ppmr restart --wait ---------------------------------------------------------------------------------------

    /** The job's two ranks are gone. Returns their kept copy. */
    private String keptAndGone(Nodes nodes, LedgerJob job) throws Exception {
        TargetService target = nodes.target("target", job.checkpointer());
        SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
        MigrationReport report = KeepIT.migrate(source, job.job(), Keeping.KeepRequest.in(copies));
        assertTrue(report.copy().kept(), report.copy().reason());
        job.runsThere();
        job.killCopies();
        job.cutToSaved();
        return report.copy().directory();
    }

    /** A command that waits for what it has restarted, which runs by now. */
    private Process restartAndWait(String copy, Path said, LedgerJob job) throws Exception {
        Process waiting = new ProcessBuilder(
                        PpmrCommand.words("restart", copy, "--wait", "--config", config().toString()))
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        try {
            Conditions.until(
                    "both ranks run or the command has ended",
                    () -> !waiting.isAlive() || Files.readString(said).contains("rank 1 runs as PID"));
            job.runsThere();
            return waiting;
        } catch (Exception | AssertionError e) {
            waiting.destroyForcibly();
            throw new AssertionError(Files.readString(said), e);
        }
    }

    @Tag("soak")
    @Test
    void shouldWaitUntilEveryRankHasEndedByItselfOrFailed() throws Exception {
        Path said = directory.resolve("said");
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            Process waiting = restartAndWait(keptAndGone(nodes, job), said, job);
            try {
                Matcher rank1 = Pattern.compile("rank 1 runs as PID (\\d+)").matcher(Files.readString(said));
                assertTrue(rank1.find());
                assertTrue(ProcessHandle.of(Long.parseLong(rank1.group(1)))
                        .orElseThrow()
                        .destroyForcibly());
                Conditions.until("rank 1 is gone", () -> job.livingCopies(1) == 0);
                assertFalse(waiting.waitFor(1, TimeUnit.SECONDS), "rank 0 still runs: " + Files.readString(said));
                assertEquals(1, job.livingCopies(0), "that a rank fails ends no other");
                Files.createFile(Path.of(job.ledger(0) + ".end"));
                assertTrue(waiting.waitFor(Patience.of(60), TimeUnit.SECONDS), Files.readString(said));
                assertEquals(0, waiting.exitValue(), Files.readString(said));
                assertTrue(Files.readString(said).endsWith("all have ended\n"), Files.readString(said));
                assertEquals(0, job.livingCopies(0));
            } finally {
                waiting.destroyForcibly();
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldLeaveTheJobRunningWhenTheWaitingIsInterrupted() throws Exception {
        Path said = directory.resolve("said");
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            Process waiting = restartAndWait(keptAndGone(nodes, job), said, job);
            try {
                waiting.destroy();
                assertTrue(waiting.waitFor(Patience.of(60), TimeUnit.SECONDS), Files.readString(said));
                assertEquals(TERMINATED, waiting.exitValue(), Files.readString(said));
                assertFalse(Files.readString(said).contains("all have ended"), Files.readString(said));
                job.runsThere();
            } finally {
                waiting.destroyForcibly();
            }
        }
    }
}
