package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A job of four processes that exchange data over TCP in a ring and check it. Two of them move by CRIU from one node to
 * another while the other two stay on a third. Its hooks have all of them close their endpoints and connect again.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RingIT {
    private static final long MIXER = 0xBF58476D1CE4E5B9L;
    private static final int MORE_ROUNDS = 30;

    @TempDir
    private static Path directory;

    private static RingNodes nodes;

    private final Map<Integer, ProcessIdentity> originals = new TreeMap<>();
    private final ProcessTable processes = new ProcessTable();

    /** A line of a rank's log. */
    private record Round(long number, long value, int pid, String host, String right) {}

    @BeforeAll
    static void makeNodes() throws Exception {
        nodes = new RingNodes(directory);
    }

    @AfterAll
    static void endNodes() throws Exception {
        if (nodes != null) {
            nodes.close();
        }
    }

    @BeforeEach
    void clear() throws Exception {
        try (Stream<Path> files = Files.list(nodes.job())) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        nodes.failRestarts(false);
        nodes.publishMap(
                0,
                List.of(
                        "0 " + RingNodes.LEAVING,
                        "1 " + RingNodes.LEAVING,
                        "2 " + RingNodes.STAYING,
                        "3 " + RingNodes.STAYING));
    }

    /** Copies, whose PIDs are not available here, are found by the program that they run. */
    @AfterEach
    void endRing() throws Exception {
        Conditions.until("no process of the ring is left", () -> {
            List<ProcessHandle> left = ProcessHandle.allProcesses()
                    .filter(process -> runs(process.pid(), "ring-job"))
                    .toList();
            left.forEach(ProcessHandle::destroyForcibly);
            return left.isEmpty();
        });
        originals.clear();
    }

    private static boolean runs(long pid, String program) {
        try {
            return Files.readSymbolicLink(Path.of("/proc", Long.toString(pid), "exe"))
                    .startsWith(RingNodes.HOME.resolve("ppmr-system-tests/target/native-test/" + program));
        } catch (IOException e) {
            return false;
        }
    }

    private void startRing() throws Exception {
        for (int rank = 0; rank < RingNodes.RANKS; rank++) {
            originals.put(rank, nodes.start(rank, RingNodes.RANKS));
        }
        goesOn(RingNodes.RANKS);
    }

    private static List<Round> rounds(int rank) throws IOException {
        Path log = nodes.job().resolve("log-" + rank);
        List<Round> rounds = new ArrayList<>();
        if (Files.exists(log)) {
            String text = Files.readString(log);
            for (String line :
                    text.substring(0, text.lastIndexOf('\n') + 1).lines().toList()) {
                assertFalse(line.startsWith("BROKEN"), "rank " + rank + ": " + line);
                String[] words = line.split(" ", -1);
                rounds.add(new Round(
                        Long.parseLong(words[0]),
                        Long.parseUnsignedLong(words[1], 16),
                        Integer.parseInt(words[2]),
                        words[3],
                        words[4]));
            }
        }
        return rounds;
    }

    /**
     * Waits until every rank makes further rounds, and checks all of them from the first. Returns the last round of
     * each rank.
     */
    private static List<Round> goesOn(int size) throws Exception {
        int[] before = new int[size];
        for (int rank = 0; rank < size; rank++) {
            before[rank] = rounds(rank).size();
        }
        List<List<Round>> all = new ArrayList<>();
        Conditions.until("every rank continues", () -> {
            all.clear();
            for (int rank = 0; rank < size; rank++) {
                all.add(rounds(rank));
            }
            boolean every = true;
            for (int rank = 0; rank < size; rank++) {
                every &= all.get(rank).size() >= before[rank] + MORE_ROUNDS;
            }
            return every;
        });
        check(all);
        return all.stream().map(rounds -> rounds.get(rounds.size() - 1)).toList();
    }

    /** The whole ring, computed here once more. */
    private static void check(List<List<Round>> all) {
        int longest = all.stream().mapToInt(List::size).max().orElseThrow();
        long[] values = LongStream.rangeClosed(1, all.size()).toArray();
        for (int i = 0; i < longest; i++) {
            long[] next = new long[values.length];
            for (int rank = 0; rank < values.length; rank++) {
                next[rank] = mixed(values[rank], values[(rank + values.length - 1) % values.length], i + 1);
            }
            values = next;
            for (int rank = 0; rank < values.length; rank++) {
                if (i < all.get(rank).size()) {
                    Round round = all.get(rank).get(i);
                    assertEquals(i + 1, round.number(), "rank " + rank + " has repeated or left out a round");
                    assertEquals(values[rank], round.value(), "rank " + rank + " has a wrong value: " + round);
                }
            }
        }
    }

    /** This function is equal to the one in ring-job.c. */
    private static long mixed(long own, long left, long round) {
        long x = own * 31 + left + round;
        x ^= x >>> 29;
        x *= MIXER;
        return x ^ (x >>> 32);
    }

    private void goesOnInItsOriginals() throws Exception {
        List<Round> last = goesOn(RingNodes.RANKS);
        for (int rank = 0; rank < RingNodes.RANKS; rank++) {
            assertEquals(
                    rank < RingNodes.MOVED ? "node-a" : "node-c", last.get(rank).host());
            assertTrue(processes.isAlive(originals.get(rank)), "rank " + rank + " is to continue in its original");
        }
        assertEquals(
                RingNodes.RANKS,
                ProcessHandle.allProcesses()
                        .filter(process -> runs(process.pid(), "ring-job"))
                        .count(),
                "nothing else of the ring lives");
    }

    private MigrationReport ends(Outcome outcome, Runnable whenHeld, String... words) throws Exception {
        MigrationReport report = nodes.migrate(Optional.empty(), whenHeld);
        assertEquals(outcome, report.outcome(), report.reason() + "\n" + nodes.logs());
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
        return report;
    }

    private static void ignoreHold() {
        assertTrue(Files.isDirectory(directory));
    }

    @Tag("soak")
    @Test
    void shouldNoticeAWrongValueWhenARankLies() throws Exception {
        for (int rank = 0; rank < RingNodes.RANKS; rank++) {
            nodes.start(rank, RingNodes.RANKS, "--lie-at", rank == 1 ? "20" : "0");
        }
        Path log = nodes.job().resolve("log-2");
        Conditions.until(
                "its neighbour notices",
                () -> Files.exists(log)
                        && Files.readString(log).contains("BROKEN in round 20: the left neighbour's value"));
    }

    @Test
    void shouldGoOnWithTheRightResultWhenTwoOfFourRanksMove() throws Exception {
        startRing();
        MigrationReport report = ends(Outcome.COMMITTED, RingIT::ignoreHold);
        List<Round> last = goesOn(RingNodes.RANKS);
        assertEquals(
                List.of("node-b", "node-b", "node-c", "node-c"),
                last.stream().map(Round::host).toList());
        assertEquals(
                List.of(RingNodes.SPARE, RingNodes.STAYING, RingNodes.STAYING, RingNodes.SPARE),
                last.stream().map(Round::right).toList(),
                "each talks to where its right neighbour is now");
        for (int rank = 0; rank < RingNodes.RANKS; rank++) {
            assertEquals(
                    rank >= RingNodes.MOVED, processes.isAlive(originals.get(rank)), "the original of rank " + rank);
        }
        assertEquals(RingNodes.MOVED, report.ranks().size());
        for (MigrationReport.MovedRank rank : report.ranks()) {
            assertTrue(
                    nodes.programOnSpare(rank.pids().get(0)).endsWith("/ring-job"),
                    rank + " is to live on the spare node");
        }
        assertEquals(
                List.of(
                        "0 " + RingNodes.SPARE,
                        "1 " + RingNodes.SPARE,
                        "2 " + RingNodes.STAYING,
                        "3 " + RingNodes.STAYING),
                Files.readAllLines(nodes.job().resolve("reconnect.map")));
        assertEquals(
                RingNodes.SPARE + ":0,1 " + RingNodes.STAYING + ":2,3",
                Files.readString(nodes.job().resolve("reconnect.shared")).strip());
        assertFalse(Files.exists(nodes.job().resolve("resumed")), "nothing is to be undone");
    }

    @Test
    void shouldGoOnWithTheRightResultWhenTheMigrationIsRolledBackHalfway() throws Exception {
        startRing();
        nodes.failRestarts(true);
        ends(
                Outcome.ROLLED_BACK,
                () -> {
                    try {
                        nodes.originalsAreHeld();
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                },
                "could not be restarted",
                "this restart was to fail");
        goesOnInItsOriginals();
        assertEquals("0 1", Files.readString(nodes.job().resolve("resumed")).strip());
        assertFalse(Files.exists(nodes.job().resolve("reconnect.map")), "nothing has moved");
    }

    @Tag("soak")
    @Test
    void shouldRestartFromTheCopyWhenTheWholeRingHasMovedAndIsGone() throws Exception {
        int size = RingNodes.MOVED;
        nodes.publishMap(0, List.of("0 " + RingNodes.LEAVING, "1 " + RingNodes.LEAVING));
        for (int rank = 0; rank < size; rank++) {
            nodes.start(rank, size);
        }
        goesOn(size);
        Path copies = Files.createDirectory(directory.resolve("copies"));
        MigrationReport report = nodes.migrate(Optional.of(copies), RingIT::ignoreHold);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason() + "\n" + nodes.logs());
        assertTrue(report.copy().kept(), report.copy().reason());
        goesOn(size);
        endRing();
        // Returns to where it was stopped.
        long stood = Long.parseLong(
                Files.readString(nodes.job().resolve("stopped-0.0")).strip());
        for (int rank = 0; rank < size; rank++) {
            Path log = nodes.job().resolve("log-" + rank);
            List<String> lines = Files.readAllLines(log);
            assertTrue(lines.size() > stood, "it has gone on after the move");
            Files.write(log, lines.subList(0, (int) stood));
        }
        Files.delete(nodes.job().resolve("map.1"));
        PpmrCommand restarted = nodes.restartOnSpare(report.copy().directory());
        assertEquals(0, restarted.exitCode(), restarted.said());
        nodes.publishMap(1, List.of("0 " + RingNodes.SPARE, "1 " + RingNodes.SPARE));
        assertEquals(
                List.of("node-b", "node-b"),
                goesOn(size).stream().map(Round::host).toList());
    }

    @Tag("soak")
    @Test
    void shouldCallOffAndGoOnWhenSuspendFails() throws Exception {
        startRing();
        nodes.suspendHook("fail");
        ends(Outcome.ROLLED_BACK, RingIT::ignoreHold, "suspend", "an endpoint is stuck");
        goesOnInItsOriginals();
    }

    @Tag("soak")
    @Test
    void shouldCallOffAndGoOnWhenSuspendRunsPastItsDeadline() throws Exception {
        startRing();
        nodes.suspendHook("hang");
        ends(Outcome.ROLLED_BACK, RingIT::ignoreHold, "suspend", "has not ended within");
        goesOnInItsOriginals();
    }
}
