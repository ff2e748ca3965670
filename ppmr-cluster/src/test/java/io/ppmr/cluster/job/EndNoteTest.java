package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.EndNote.EndAct;
import io.ppmr.daemon.jobs.JobName;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The acts of a source in a recovery, by its note and the record. */
class EndNoteTest {
    private static final JobName JOB = new JobName(1000, "ring");

    @TempDir
    private Path journal;

    private static JobRecord record(JobPhase phase, long restart) {
        JobRecord record = JobRecord.of("0a", JOB, 2, JobRecord.JobSchedule.NONE);
        return record.in(phase, record.numbers().nextRecovery(restart), false, "1-1-00000000");
    }

    private static EndNote note(String id, long restart) {
        return new EndNote(id, restart, 0, Set.of("p1"));
    }

    @Test
    void shouldCallPodsStaleOnlyIfTheRecordHasANewerLayoutWithThemElsewhere() {
        JobRecord old = record(JobPhase.RUNNING, 7);
        JobRecord released = old.in(JobPhase.RUNNING, old.numbers().released(), false, "");
        EndNote note = EndNote.NONE.registered(old, Set.of("p1", "p2"));
        assertTrue(note.isStale(released, Set.of("p1"), Set.of()));
        assertTrue(note.isStale(released, Set.of("p1"), Set.of("p3")));
        assertFalse(note.isStale(released, Set.of("p1"), Set.of("p1")), "it was restored here");
        assertFalse(note.isStale(released, Set.of("p3"), Set.of()), "it came by a migration since");
        assertFalse(note.isStale(old, Set.of("p1"), Set.of()), "of the same layout");
        assertFalse(note.isStale(released, Set.of(), Set.of()));
        assertFalse(note("0b", 7).isStale(released, Set.of("p1"), Set.of()), "of another job");
    }

    @Test
    void shouldEndPodsOnceForEachRecoveryAndInNoOtherPhase() {
        EndNote note = note("0a", 7);
        assertEquals(EndAct.END, EndNote.NONE.next(record(JobPhase.ENDING, 7)));
        assertEquals(EndAct.END, note.next(record(JobPhase.ENDING, 8)));
        assertEquals(EndAct.END, note("0b", 9).next(record(JobPhase.ENDING, 7)), "of another job of that name");
        assertEquals(EndAct.REPORT, note.next(record(JobPhase.ENDING, 7)));
        assertEquals(EndAct.WAIT, note.next(record(JobPhase.ENDING, 6)), "a record that was read late");
        for (JobPhase phase : Set.of(JobPhase.RUNNING, JobPhase.CHECKPOINT, JobPhase.RESTARTING, JobPhase.RELEASING)) {
            assertEquals(EndAct.WAIT, note.next(record(phase, 8)), phase.word());
        }
    }

    @Test
    void shouldBeReadAsItWasWrittenAndRefusedByNameWhenItIsDamaged() throws Exception {
        MemberNotes notes = new MemberNotes(journal);
        assertEquals(EndNote.NONE, notes.end(JOB));
        notes.writeEnd(JOB, note("0a", 7));
        assertEquals(note("0a", 7), new MemberNotes(journal).end(JOB));
        assertEquals(Set.of(JobKey.of(JOB)), notes.keys());
        Files.writeString(journal.resolve("jobs").resolve(JobKey.of(JOB) + ".end"), "{");
        IOException damaged = assertThrows(IOException.class, () -> notes.end(JOB));
        assertTrue(damaged.getMessage().contains("is damaged"), damaged.getMessage());
    }
}
