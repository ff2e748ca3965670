package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.linux.ProcessIdentity;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests ranks of real processes, released and killed together. */
@Timeout(120)
class HeldRankIT {
    private static final int RANKS = 3;
    private static final Duration LIMIT = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    private final ProcessTable table = new ProcessTable();
    private final SignalSender signals = new SignalSender(table);
    private final List<Process> shells = new ArrayList<>();
    private final List<HeldRank> ranks = new ArrayList<>();

    @BeforeEach
    void holdRanks() throws Exception {
        for (int rank = 0; rank < RANKS; rank++) {
            Process shell = new ProcessBuilder("/bin/sh", "-c", "sleep 60 & sleep 60 & wait").start();
            shells.add(shell);
            ProcessIdentity root = table.of((int) shell.pid());
            assertTrue(Polling.until(LIMIT, () -> table.tree(root).size() == 3));
            List<ProcessIdentity> tree = table.tree(root);
            assertEquals(List.of(), signals.sendAll(Signal.STOP, tree));
            assertTrue(Polling.until(LIMIT, () -> table.whyNotHeld(tree).isEmpty()));
            ranks.add(new HeldRank(rank, tree, List.of()));
        }
    }

    @AfterEach
    void endThem() throws Exception {
        for (HeldRank rank : ranks) {
            signals.sendAll(Signal.KILL, rank.processes());
        }
        for (Process shell : shells) {
            assertTrue(shell.waitFor(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void shouldSetAllRanksGoingWhenTheyAreReleased() throws Exception {
        assertEquals(Map.of(), HeldRank.releaseAll(ranks));
        for (HeldRank rank : ranks) {
            assertTrue(Polling.until(LIMIT, () -> rank.processes().stream().allMatch(table::isRunning)));
        }
    }

    @Test
    void shouldNotCountAsHeldWhenNoneOfItsProcessesIsKnown() {
        HeldRank nothing = HeldRank.recorded(7, List.of(), List.of(), table.snapshot());
        String message =
                assertThrows(CheckpointException.class, nothing::requireHeld).getMessage();
        assertTrue(message.contains("rank 7 is not held: its processes are unknown"), message);
        assertFalse(nothing.isHeld());
    }

    @Test
    void shouldStayHeldHoweverOftenItIsLookedAt() throws Exception {
        ProcessIdentity child = ranks.get(0).processes().get(1);
        for (int look = 0; look < 200; look++) {
            for (String file : List.of("stat", "status", "smaps", "maps", "wchan", "io")) {
                Files.readString(Path.of("/proc/" + child.pid(), file), StandardCharsets.ISO_8859_1);
            }
            ranks.get(0).requireHeld();
        }
    }

    @Test
    void shouldSayWhatRunsWhenAProcessWasContinued() throws Exception {
        ProcessIdentity child = ranks.get(1).processes().get(1);
        signals.send(Signal.CONT, child);
        assertTrue(Polling.until(LIMIT, () -> table.isRunning(child)));
        String message = assertThrows(
                        CheckpointException.class, () -> ranks.get(1).requireHeld())
                .getMessage();
        assertTrue(message.contains("rank 1 is not held") && message.contains("PID " + child.pid()), message);
        ranks.get(0).requireHeld();
    }

    @Test
    void shouldSayWhatHasRunWhenAProcessWasContinuedAndStoppedAgain() throws Exception {
        ProcessIdentity child = ranks.get(1).processes().get(1);
        signals.send(Signal.CONT, child);
        signals.send(Signal.STOP, child);
        assertTrue(Polling.until(LIMIT, () -> table.isHeld(child) && table.isOffProcessor(child)));
        String message = assertThrows(
                        CheckpointException.class, () -> ranks.get(1).requireHeld())
                .getMessage();
        assertTrue(message.contains("rank 1 is not held: PID " + child.pid() + " has run while it was held"), message);
        assertFalse(ranks.get(1).isHeld());
        ranks.get(0).requireHeld();
    }

    @Test
    void shouldLeaveStoppedWhatTheJobHadStoppedWhenRanksAreReleased() throws Exception {
        ProcessIdentity child = ranks.get(1).processes().get(2);
        ranks.set(1, ranks.get(1).withStoppedByJob(Set.of(child)));
        ranks.get(1).requireHeld();
        assertEquals(Map.of(), HeldRank.releaseAll(ranks));
        for (HeldRank rank : ranks) {
            assertTrue(Polling.until(LIMIT, () -> rank.processes().stream()
                    .filter(process -> !process.equals(child))
                    .allMatch(table::isRunning)));
        }
        assertTrue(table.isHeld(child));
        signals.send(Signal.KILL, child);
        assertTrue(Polling.until(LIMIT, () -> !table.isAlive(child)));
        assertEquals(
                Set.of(1), HeldRank.releaseAll(ranks).keySet(), "one that is gone is named, though it stays stopped");
    }

    @Test
    void shouldLeaveStoppedWhatTheJobHadStoppedWhenARestartedServiceLetsARankRun() throws Exception {
        List<ProcessIdentity> tree = ranks.get(1).processes();
        ProcessIdentity child = tree.get(2);
        HeldRank found = HeldRank.recorded(1, tree.subList(0, 1), List.of(child), table.snapshot());
        assertEquals(Map.of(), OrphanedCommand.resumeAll(List.of(found)));
        assertTrue(table.isRunning(tree.get(0)) && table.isRunning(tree.get(1)));
        assertTrue(table.isHeld(child));
    }

    @Test
    void shouldFindTheCopiesOfStoppedProcessesByTheirPidsOrTheirPlaces() throws Exception {
        HeldRank original =
                ranks.get(0).withStoppedByJob(Set.of(ranks.get(0).processes().get(2)));
        StoppedProcesses recorded = StoppedProcesses.of(original);
        assertEquals(List.of(-1, 0, 0), recorded.parents());
        assertEquals(original.stoppedByJob(), recorded.among(original), "by their PIDs");
        HeldRank copy = ranks.get(1);
        assertEquals(Set.of(copy.processes().get(2)), recorded.among(copy), "by their places");
    }

    @Test
    void shouldRefuseWhenItCannotBeToldWhichCopiesAreToStayStopped() throws Exception {
        List<ProcessIdentity> tree = ranks.get(0).processes();
        StoppedProcesses recorded = StoppedProcesses.of(ranks.get(0).withStoppedByJob(Set.of(tree.get(2))));
        HeldRank fewer = new HeldRank(0, tree.subList(0, 2), List.of());
        String message = assertThrows(CheckpointException.class, () -> recorded.among(fewer))
                .getMessage();
        assertTrue(message.contains("rank 0") && message.contains("Remedy: "), message);
        // A peer's numbers are compared, never followed.
        for (int place : List.of(-1, 3, Integer.MAX_VALUE)) {
            StoppedProcesses wrong = new StoppedProcesses(recorded.pids(), recorded.parents(), List.of(place));
            assertThrows(CheckpointException.class, () -> wrong.among(ranks.get(0)));
        }
    }

    @Test
    void shouldNameTheRankAndSetTheOthersGoingWhenAProcessIsGone() throws Exception {
        ProcessIdentity lost = ranks.get(1).processes().get(2);
        signals.send(Signal.KILL, lost);
        assertTrue(Polling.until(LIMIT, () -> !table.isAlive(lost)));
        Map<Integer, String> failures = HeldRank.releaseAll(ranks);
        assertEquals(Set.of(1), failures.keySet());
        assertEquals("rank 1 cannot continue as it was: PIDs [" + lost.pid() + "] are gone", failures.get(1));
        for (HeldRank rank : ranks) {
            assertTrue(Polling.until(LIMIT, () -> rank.processes().stream()
                    .filter(process -> !process.equals(lost))
                    .allMatch(table::isRunning)));
        }
        assertThrows(CheckpointException.class, () -> ranks.get(1).release());
    }

    @Test
    void shouldLeaveNothingOfAnyRankWhenTheyAreEnded() throws Exception {
        List<ProcessIdentity> all =
                ranks.stream().flatMap(rank -> rank.processes().stream()).toList();
        assertEquals(Map.of(), HeldRank.endAll(ranks, LIMIT));
        assertTrue(all.stream().noneMatch(table::isAlive));
        assertEquals(Map.of(), HeldRank.endAll(ranks, LIMIT), "once more");
        assertEquals(Map.of(), HeldRank.endAll(List.of(), LIMIT));
    }

    @Test
    void shouldSignalTheOthersWhenOneIsAnotherProcessByNow() throws Exception {
        List<ProcessIdentity> tree = ranks.get(0).processes();
        ProcessIdentity stranger = new ProcessIdentity(
                tree.get(1).bootId(), tree.get(1).pidNamespace(), tree.get(1).pid(), 1);
        assertEquals(List.of(stranger), signals.sendAll(Signal.KILL, List.of(stranger, tree.get(2))));
        assertTrue(Polling.until(LIMIT, () -> !table.isAlive(tree.get(2))));
        assertFalse(table.whyNotHeld(List.of(tree.get(1))).isPresent());
    }

    @Test
    void shouldFindSeveralTreesByOneLook() {
        List<ProcessIdentity> roots =
                ranks.stream().map(rank -> rank.processes().get(0)).toList();
        assertEquals(
                Set.copyOf(ranks.stream()
                        .flatMap(rank -> rank.processes().stream())
                        .toList()),
                Set.copyOf(table.trees(roots)));
    }
}
