package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Copies the memory of running jobs in rounds, dumps them and restores them by CRIU, and compares originals and copies
 * byte for byte, both held. The fields that the kernel itself writes, rseq(2), are left out.
 */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RoundBytesIT {
    private static final Logger LOG = LoggerFactory.getLogger(RoundBytesIT.class);
    private static final int IN_GATE = 10;
    private static final int IN_SOAK = 500;
    private static final int LARGE_JOBS = 10;
    private static final long MIB = 1 << 20;

    @TempDir
    private Path folder;

    @Test
    void shouldGiveEachPageItsBytesInTenMoves() throws Exception {
        compare(Integer.getInteger("ppmr.moves", IN_GATE), 8, 40);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 3600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldGiveEachPageItsBytesInManyMoves() throws Exception {
        compare(IN_SOAK, 4, 64);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 1800, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldGiveEachPageItsBytesInMovesOfLargeJobs() throws Exception {
        compare(LARGE_JOBS, 300, 600);
    }

    /** Two ranks share the room that was admitted for both. */
    @Test
    void shouldFailWhenTheStoresOfAllRanksNeedMoreThanTheirLimitTogether() throws Exception {
        Path own = Files.createDirectory(folder.resolve("shared"));
        Process job = RoundTool.job(own, RoundTool.draw(new Random(1), 16, 1).toArray(String[]::new));
        try (RoundTool tool = new RoundTool(own, job, List.of(), dump(own, job))) {
            tool.round();
            tool.dump(hold(job));
            ByteBuffer pages = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.nativeOrder());
            Path account = own.resolve("account");
            Files.write(
                    account, pages.putLong(0, 1000 * MIB / PreCopy.PAGE_BYTES).array());
            try (RestoredCopy copy = RestoredCopy.held(own, 1001 * MIB, "--account", account.toString())) {
                assertEquals("1", copy.status());
                String text = RoundTool.text(own.resolve("target.log"));
                assertTrue(text.contains("more than 1001 MiB of the job's memory have arrived"), text);
            }
        } finally {
            RoundTool.kill(job);
        }
    }

    /** A device may write into memory that it has pinned. */
    @Test
    void shouldNotTrackAProcessThatHasADevice() throws Exception {
        Path own = Files.createDirectory(folder.resolve("device"));
        Process job = new ProcessBuilder("sh", "-c", "exec sleep 600 7</dev/fuse").start();
        try (RoundTool tool = new RoundTool(own, job, List.of(), dump(own, job))) {
            String line = tool.round();
            assertTrue(line.contains(" untracked 1") && line.contains("another device"), line);
        } finally {
            RoundTool.kill(job);
        }
    }

    /** Moves jobs with so many MiB, with threads and children, which write little or much. */
    private void compare(int count, int leastMib, int mostMib) throws Exception {
        long seed = Long.getLong("ppmr.seed", System.nanoTime());
        LOG.info("-Dppmr.seed={}", seed);
        Random random = new Random(seed);
        long pages = 0;
        int compared = 0;
        for (int i = 0; i < count; i++) {
            Path own = Files.createDirectory(folder.resolve("move-" + i));
            int mib = leastMib + random.nextInt(mostMib - leastMib);
            long before = pages;
            List<String> arguments = RoundTool.draw(random, mib, 8);
            pages += compare(own, arguments, 1 + random.nextInt(4), (4 * mib + 256) * MIB);
            compared += pages > before ? 1 : 0;
        }
        LOG.info("{} of {} moves, {} pages compared, no byte differs", compared, count, pages);
        assertTrue(compared * 2 >= count, compared + " of " + count + " jobs could be stopped in time");
    }

    /** Returns the number of compared pages; 0 if the rounds ended, which must leave the job as it was. */
    private static long compare(Path own, List<String> arguments, int rounds, long storeBytes) throws Exception {
        Process job = RoundTool.job(own, arguments.toArray(String[]::new));
        try (RoundTool tool = new RoundTool(own, job, List.of(), dump(own, job))) {
            for (int round = 0; round < rounds; round++) {
                String line = tool.round();
                assertTrue(line.startsWith("round ") && line.contains(" untracked 0"), line);
            }
            List<Long> originals = hold(job);
            tool.dump(originals);
            return restored(own, storeBytes, originals, arguments);
        } catch (RoundTool.RoundsEndedException e) {
            LOG.info("a move ended before its pause: {}", e.getMessage());
            RoundTool.requireRight(own, job);
            return 0;
        } finally {
            RoundTool.kill(job);
        }
    }

    static List<String> dump(Path own, Process job) throws CheckpointException {
        List<String> words = new ArrayList<>(CriuInstall.program());
        words.addAll(Command.words(
                "dump --tree %s --images-dir %s --work-dir %s --log-file %s --leave-stopped --manage-cgroups=ignore"
                        + " --lazy-pages --ps-socket {socket} --status-fd {status}",
                job.pid(), own.resolve("images"), own.resolve("scratch"), own.resolve("dump.log")));
        return words;
    }

    /** Stops all processes of the job, and returns them. */
    static List<Long> hold(Process job) throws Exception {
        List<Long> held = new ArrayList<>();
        RoundTool.until("the job is held", () -> {
            List<Long> now = Stream.concat(Stream.of(job.toHandle()), job.descendants())
                    .map(ProcessHandle::pid)
                    .toList();
            for (long pid : now) {
                new ProcessBuilder("kill", "-STOP", Long.toString(pid)).start().waitFor();
            }
            boolean all = now.equals(held) && now.stream().allMatch(RoundBytesIT::isHeld);
            held.clear();
            held.addAll(now);
            return all;
        });
        return held;
    }

    /**
     * Returns whether the process can do nothing more. A thread that still runs reaps a child of its process, so a
     * process is held when all of its threads are; one that is not there changes the list of held ones.
     */
    private static boolean isHeld(long pid) {
        try (Stream<Path> threads = Files.list(Path.of("/proc/" + pid + "/task"))) {
            return threads.allMatch(thread -> ProcStat.read(thread.resolve("stat"))
                    .filter(stat -> stat.isStopped() || stat.isDead())
                    .isPresent());
        } catch (IOException | UncheckedIOException e) {
            LOG.info("PID {} has ended: {}", pid, e.toString());
            return false;
        }
    }

    /** Restores the copy, compares it, and returns the number of compared pages. */
    private static long restored(Path own, long storeBytes, List<Long> originals, List<String> arguments)
            throws Exception {
        try (RestoredCopy copy = RestoredCopy.held(own, storeBytes)) {
            assertEquals("0", copy.status(), () -> arguments + ": " + RoundTool.text(own.resolve("target.log")));
            List<String> words = new ArrayList<>(List.of(RoundTool.program("ppmr.native.test.dir", "compare-memory")));
            words.addAll(pairs(copy, originals));
            Command.CommandResult result = Command.of(words).run(RoundTool.LIMIT);
            assertEquals(0, result.exitCode(), () -> arguments + "\n" + result.output());
            return result.output()
                    .lines()
                    .mapToLong(one -> Long.parseLong(one.replaceAll(".*: (\\d+) pages compared.*", "$1")))
                    .sum();
        }
    }

    /** Returns the PIDs of each original and its copy, which has the original's PID in a namespace of its own. */
    private static List<String> pairs(RestoredCopy copied, List<Long> originals) {
        Map<Long, Long> copies = copied.processes(originals);
        List<String> pairs = new ArrayList<>();
        for (long original : originals) {
            // A child that was about to end is a zombie in both.
            if (!ProcStat.read(Path.of("/proc/" + original + "/stat"))
                    .orElseThrow()
                    .isDead()) {
                Long copy = copies.get(original);
                assertTrue(copy != null, () -> "PID " + original + " has a copy: " + copies);
                pairs.addAll(List.of(Long.toString(original), Long.toString(copy)));
            }
        }
        assertFalse(pairs.isEmpty(), "there is a copy");
        return pairs;
    }
}
