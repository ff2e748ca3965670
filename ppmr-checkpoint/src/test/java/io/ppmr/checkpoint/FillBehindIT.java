package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Copies that run while they are still filled. They write, map, move, unmap, give back, fork and execute, and check all
 * of their memory.
 */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FillBehindIT {
    private static final Logger LOG = LoggerFactory.getLogger(FillBehindIT.class);
    private static final int IN_GATE = 2;
    private static final int IN_SOAK = 300;
    /** The thread that answers faults, and the one that waits for the holder. */
    private static final int LATE_THREADS = 2;

    @TempDir
    private Path folder;

    /** The program that is killed while the copy is filled. */
    private enum Victim {
        NOTHING,
        FILLER,
        OUTSIDE_FILLER,
        /** It is killed when the last page is there, before it ends of its own. */
        WHOLE_FILLER,
        /** Both get SIGTERM, as all processes of a unit that is stopped do. */
        TERMINATED,
        HOLDER
    }

    @Test
    void shouldGiveARunningCopyEachPage() throws Exception {
        move(Integer.getInteger("ppmr.moves", IN_GATE), 40, 80, Victim.NOTHING);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 3600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldGiveRunningCopiesEachPageInManyMoves() throws Exception {
        move(IN_SOAK, 100, 400, Victim.NOTHING);
    }

    @Test
    void shouldGoOnWhenTheHolderIsKilledMeanwhile() throws Exception {
        move(1, 60, 90, Victim.HOLDER);
    }

    @Test
    void shouldEndTheCopyAndNeverRunItOnZerosWhenTheFillerIsKilledMeanwhile() throws Exception {
        move(1, 60, 90, Victim.FILLER);
    }

    @Test
    void shouldNotEndTheCopyWhenTheFillerIsKilledBehindTheLastPage() throws Exception {
        move(1, 60, 90, Victim.WHOLE_FILLER);
    }

    /** A copy that handles the signal computes until it ends, with its own pages. */
    @Tag("soak")
    @Test
    void shouldGiveARunningCopyEachPageWhenItsUnitIsStopped() throws Exception {
        move(1, 200, 300, Victim.TERMINATED);
    }

    /** No other process of the node is killed. */
    @Tag("soak")
    @Test
    void shouldEndTheCopyAloneWhenTheFillerIsKilledOutsideOfItsNamespace() throws Exception {
        Process other = new ProcessBuilder("sleep", "600").start();
        try {
            move(1, 200, 300, Victim.OUTSIDE_FILLER);
            assertTrue(other.isAlive());
        } finally {
            other.destroyForcibly();
        }
    }

    @Tag("soak")
    @Test
    @Timeout(value = 1800, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldNeverRunACopyOnZerosWhicheverIsKilled() throws Exception {
        move(50, 200, 400, Victim.HOLDER);
        move(50, 200, 400, Victim.FILLER);
    }

    private void move(int count, int leastMib, int mostMib, Victim victim) throws Exception {
        long seed = Long.getLong("ppmr.seed", System.nanoTime());
        LOG.info("-Dppmr.seed={}", seed);
        Random random = new Random(seed);
        int behind = 0;
        int moved = 0;
        for (int i = 0; i < count; i++) {
            Path own = Files.createDirectory(folder.resolve(victim + "-" + i));
            int mib = leastMib + random.nextInt(mostMib - leastMib);
            List<String> arguments = RoundTool.draw(random, mib, 6);
            try {
                behind += move(own, arguments, (4L * mib + 256) << 20, victim) ? 1 : 0;
                moved++;
            } catch (RoundTool.RoundsEndedException e) {
                LOG.info("a move ended before its pause: {}", e.getMessage());
            }
        }
        LOG.info("{} of {} moves, {} of them ran before all pages were there, no byte is wrong", moved, count, behind);
        assertTrue(moved * 2 >= count, moved + " of " + count + " jobs could be stopped in time");
        assertTrue(behind * 2 >= moved, behind + " of " + moved + " copies ran before all pages were there");
    }

    /** Moves a job. Returns whether the copy ran before all pages were there. */
    private static boolean move(Path own, List<String> arguments, long storeBytes, Victim victim) throws Exception {
        Process job = RoundTool.job(own, arguments.toArray(String[]::new));
        try (RoundTool tool = new RoundTool(own, job, List.of(), RoundBytesIT.dump(own, job))) {
            String line = tool.round();
            assertTrue(line.startsWith("round "), line);
            List<Long> originals = RoundBytesIT.hold(job);
            tool.dump(originals);
            Files.delete(own.resolve("report"));
            try (RestoredCopy copy = victim == Victim.OUTSIDE_FILLER
                    ? RestoredCopy.behindFromOutside(own, storeBytes)
                    : RestoredCopy.behind(
                            own, storeBytes, victim == Victim.WHOLE_FILLER ? "late-pages" : "slow-pages")) {
                assertEquals("0", copy.status(), () -> arguments + ": " + RoundTool.text(own.resolve("target.log")));
                List<Long> fillers = copy.fillers();
                copy.release(originals);
                long leftBytes = FillingCopies.leftBytes();
                boolean behind = isAlive(fillers.get(0));
                assertTrue(!behind || leftBytes > 0, "a copy that is filled counts when memory is promised");
                if (victim == Victim.TERMINATED) {
                    for (long filler : fillers) {
                        Command.of(List.of("kill", "-TERM", Long.toString(filler)))
                                .run(RoundTool.LIMIT);
                    }
                    assertTrue(!behind || isAlive(fillers.get(1)), "the holder ignores SIGTERM");
                } else if (victim != Victim.NOTHING) {
                    if (victim == Victim.WHOLE_FILLER) {
                        // The threads that copy pages end with the last one.
                        RoundTool.until("the last page is there", () -> threads(fillers.get(0)) <= LATE_THREADS);
                    }
                    kill(fillers.get(victim == Victim.HOLDER ? 1 : 0));
                }
                if ((victim == Victim.FILLER || victim == Victim.OUTSIDE_FILLER) && behind) {
                    RoundTool.until("the copy is killed", () -> copy.processes(originals)
                            .isEmpty());
                    assertFalse(
                            RoundTool.text(own.resolve("report")).contains("wrong"), own.resolve("report")::toString);
                    return true;
                }
                RoundTool.until(arguments + ": all pages are there", () -> !isAlive(fillers.get(0)));
                copy.requireRight(originals.get(0));
                return behind;
            }
        } catch (RoundTool.RoundsEndedException e) {
            RoundTool.requireRight(own, job);
            throw e;
        } finally {
            RoundTool.kill(job);
        }
    }

    private static int threads(long pid) {
        String[] names = new File("/proc/" + pid + "/task").list();
        return names == null ? 0 : names.length;
    }

    private static boolean isAlive(long pid) {
        return Files.exists(Path.of("/proc/" + pid)) && !ProcessHandle.of(pid).isEmpty();
    }

    private static void kill(long pid) {
        List<ProcessHandle> victims = new ArrayList<>();
        ProcessHandle.of(pid).ifPresent(victims::add);
        victims.forEach(ProcessHandle::destroyForcibly);
    }
}
