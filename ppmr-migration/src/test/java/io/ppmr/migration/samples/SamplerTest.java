package io.ppmr.migration.samples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A sampler's points cover a migration of any length, and it neither writes in a pause nor fails on a full disk. */
class SamplerTest {
    private static final long LIMIT_NS = 60_000_000_000L;

    @TempDir
    private Path journal;

    /** A migration of some ranks, each of which has as many bytes as its number and the time say. */
    private static final class PlayedMigration implements SampledMigration {
        private final int ranks;
        private final AtomicLong time = new AtomicLong();
        private final AtomicBoolean paused = new AtomicBoolean();

        PlayedMigration(int ranks) {
            this.ranks = ranks;
        }

        @Override
        public long bytes(SampledValue value) {
            return value == SampledValue.POOL ? -1 : time.get() * 100;
        }

        @Override
        public void ranks(RankValues each) {
            for (int rank = 0; rank < ranks; rank++) {
                each.take(SampledValue.SENT, rank, time.get() * rank);
            }
        }

        @Override
        public boolean isPaused() {
            return paused.get();
        }
    }

    private static List<Long> bytes(MigrationSamples samples, int rank) {
        return samples.curve(SampledValue.SENT, rank).orElseThrow().bytes();
    }

    @Test
    void shouldCoverTheWholeTimeWhenThereAreMoreSamplesThanPoints() {
        PlayedMigration migration = new PlayedMigration(20);
        SampleRecorder recorder = new SampleRecorder(0);
        long stride = 1;
        for (long now = 0; now < 100_000; now += stride) {
            if (recorder.isFull()) {
                recorder.thin();
                stride *= 2;
            }
            migration.time.set(now);
            recorder.sample(now, migration);
        }
        MigrationSamples samples = recorder.samples();
        assertTrue(samples.timesMs().size() > MigrationSamples.MAX_POINTS / 2
                && samples.timesMs().size() <= MigrationSamples.MAX_POINTS);
        assertEquals(0, samples.timesMs().get(0));
        assertTrue(samples.timesMs().get(samples.timesMs().size() - 1) > 99_000);
        for (int i = 0; i < samples.timesMs().size(); i++) {
            long time = samples.timesMs().get(i);
            assertEquals(time * 100, bytes(samples, SampleCurve.JOB).get(i));
            assertEquals(time * 15, bytes(samples, 15).get(i));
            assertEquals(time * 16, bytes(samples, SampleCurve.LEAST_OF_OTHERS).get(i));
            assertEquals(time * 19, bytes(samples, SampleCurve.MOST_OF_OTHERS).get(i));
        }
        assertTrue(samples.curve(SampledValue.SENT, 16).isEmpty());
        assertTrue(samples.curve(SampledValue.POOL, SampleCurve.JOB).isEmpty());
    }

    @Test
    void shouldWriteAfterThePauseWhenTheMigrationEndsWithinIt() throws IOException {
        PlayedMigration migration = new PlayedMigration(1);
        migration.paused.set(true);
        SampleStore store = new SampleStore(journal);
        MigrationSampler sampler = new MigrationSampler("m-1", migration, store);
        sampler.start();
        migration.time.set(7);
        sampler.end();
        LockSupport.parkNanos(300_000_000L);
        assertTrue(store.find("m-1").isEmpty(), "written while the job was stopped");
        migration.paused.set(false);
        long deadlineNs = System.nanoTime() + LIMIT_NS;
        while (store.find("m-1").isEmpty() && System.nanoTime() - deadlineNs < 0) {
            Thread.onSpinWait();
        }
        assertEquals(
                700,
                store.find("m-1")
                        .orElseThrow()
                        .curve(SampledValue.WRITTEN, SampleCurve.JOB)
                        .orElseThrow()
                        .last());
    }

    @Test
    void shouldEndWithoutSamplesWhenTheyCannotBeWritten() throws Exception {
        Files.writeString(journal.resolve("samples"), "a file in the folder's place");
        MigrationSampler sampler = new MigrationSampler("m-1", new PlayedMigration(1), new SampleStore(journal));
        sampler.start();
        sampler.end();
        long deadlineNs = System.nanoTime() + LIMIT_NS;
        while (isSampling() && System.nanoTime() - deadlineNs < 0) {
            Thread.onSpinWait();
        }
        assertTrue(!isSampling(), "the sampler does not end");
        assertEquals("a file in the folder's place", Files.readString(journal.resolve("samples")));
    }

    private static boolean isSampling() {
        return Thread.getAllStackTraces().keySet().stream()
                .anyMatch(thread -> thread.getName().equals("ppmr-samples"));
    }
}
