package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.part.MemberJobs;
import io.ppmr.daemon.part.NodeJobs;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.CheckpointInterval;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A source with a job over several nodes: what it notes, reports and answers of its migrations. */
class JobMembersTest {
    private static final JobName JOB = new JobName(1000, "ring");
    private static final String HOST = "n1";
    private static final List<InetSocketAddress> TO = List.of(new InetSocketAddress("10.0.0.9", 7411));

    @TempDir
    private Path journal;

    private Set<String> here = Set.of("p0");
    private Set<String> placed = Set.of("p0");
    /** A job that was checkpointed. */
    private JobRecord record = JobRecord.of("0a", JOB, 2, JobRecord.JobSchedule.NONE)
            .in(JobPhase.RUNNING, JobRecord.JobNumbers.FIRST.nextRound(), false, "");
    /** The answer of the controllers; empty if none answers. */
    private Optional<Answer> answer = Optional.of(Answer.OK);

    private final List<JobQuestion> asked = new ArrayList<>();
    private JobMembers source;
    /** True if a migration is cancelled while its begin is being noted. */
    private boolean cancelled;

    private final MemberJobs pods = new MemberJobs() {
        @Override
        public List<MemberJob> here() {
            return here.isEmpty()
                    ? List.of()
                    : List.of(new MemberJob(
                            JOB, 2, here, Optional.empty(), Optional.empty(), CheckpointInterval.NONE, false, false));
        }

        @Override
        public Map<String, Set<String>> addresses(JobName job) {
            return Map.of();
        }

        @Override
        public Set<String> arriving(JobName job) {
            return Set.of();
        }

        @Override
        public List<Path> directories() {
            return List.of();
        }

        @Override
        public List<Path> copyDirectories() {
            return List.of();
        }

        @Override
        public boolean end(JobName job) {
            here = Set.of();
            return true;
        }

        @Override
        public void onChange(Runnable changed) {
            // The test refreshes itself.
        }
    };

    /** Happens once, while a record is being read. */
    @FunctionalInterface
    private interface Happening {
        void happen() throws IOException, RequestException;
    }

    private Happening whileReading = () -> {};

    private final JobReader reader = new JobReader() {
        @Override
        public Optional<ReadRecord> read(JobName job) throws IOException {
            JobRecord read = record;
            Happening now = whileReading;
            whileReading = () -> {};
            try {
                now.happen();
            } catch (RequestException e) {
                throw new IOException(e);
            }
            return Optional.of(new ReadRecord(read, 1));
        }

        @Override
        public Set<String> sets(JobName job) {
            return Set.of();
        }

        @Override
        public Set<String> pods(JobName job, long layout, String host) {
            return placed;
        }

        @Override
        public Set<String> orders(String host) {
            return Set.of();
        }
    };

    @BeforeEach
    void start() {
        source = new JobMembers(
                HOST,
                new NodeJobs(
                        pods,
                        Optional.of((job, order) -> {
                            throw new IOException("no checkpoint is made here");
                        }),
                        Optional.empty()),
                journal,
                question -> {
                    asked.add(question);
                    if (cancelled) {
                        source.endMove(JOB, Optional.empty());
                    }
                    return answer.orElseThrow(() -> new IOException("no controller answers"));
                });
    }

    private Map<String, String> answered() {
        return source.answer(new JobQuestion.FindPods(JOB)).pods();
    }

    private List<JobQuestion.Move> reports() {
        return asked.stream()
                .filter(JobQuestion.Move.class::isInstance)
                .map(JobQuestion.Move.class::cast)
                .filter(JobQuestion.Move::isOver)
                .toList();
    }

    /** Moves all pods while no controller answers. */
    private void moveWithoutCluster() throws Exception {
        source.refresh(reader);
        answer = Optional.empty();
        source.beginMove(JOB, TO, true);
        here = Set.of();
        source.endMove(JOB, Optional.empty());
    }

    @Test
    void shouldKeepTheNoteWhenAMigrationBeginsAndEndsWhileJobsAreRead() throws Exception {
        source.refresh(reader);
        answer = Optional.empty();
        here = Set.of("p0", "p1");
        whileReading = () -> {
            source.beginMove(JOB, TO, true);
            here = Set.of();
            source.endMove(JOB, Optional.empty());
        };
        assertFalse(source.refresh(reader));
        assertEquals(Map.of("p0", "10.0.0.9:7411", "p1", "10.0.0.9:7411"), answered());
    }

    @Test
    void shouldNotRegisterPodsAsGoneWhenARecordedMigrationIsNewerThanTheRecord() throws Exception {
        source.refresh(reader);
        asked.clear();
        here = Set.of("p0", "p1");
        whileReading = () -> {
            source.beginMove(JOB, TO, false);
            here = Set.of();
            source.endMove(JOB, Optional.empty());
        };
        assertFalse(source.refresh(reader));
        assertTrue(asked.stream().noneMatch(JobQuestion.Register.class::isInstance), asked.toString());
    }

    @Test
    void shouldNotMoveWhenAControllerRefusesItBeforeTheFirstRecordIsRead() {
        answer = Optional.of(Answer.refused("pods of the job are being moved by 3 migrations"));
        assertThrows(RequestException.class, () -> source.beginMove(JOB, TO, false));
        answer = Optional.of(Answer.unknownJob(JOB));
        assertDoesNotThrow(() -> source.beginMove(JOB, TO, false));
    }

    @Test
    void shouldRegisterAgainWhenAMigrationEndsBeforeItsBeginWasNoted() throws Exception {
        source.refresh(reader);
        here = Set.of("p0", "p1");
        cancelled = true;
        assertThrows(RequestException.class, () -> source.beginMove(JOB, TO, false));
        cancelled = false;
        source.refresh(reader);
        assertTrue(
                asked.stream()
                        .anyMatch(one -> one instanceof JobQuestion.Register register
                                && register.pods().equals(Set.of("p0", "p1"))),
                asked.toString());
    }

    @Test
    void shouldReportAnOpenMigrationAsNotBegunWhenItKnowsNothingOfIt() throws Exception {
        record = record.moving(List.of(new JobRecord.OpenMove("move-1", HOST), new JobRecord.OpenMove("move-2", "n2")));
        source.refresh(reader);
        assertEquals(List.of(new JobQuestion.Move(JOB, "move-1", HOST, true, "", Set.of())), reports());
    }

    @Test
    void shouldReportThePodsThatAreGoneWhenItKnowsNothingOfTheMigration() throws Exception {
        new MemberNotes(journal).keep(JOB);
        here = Set.of();
        record = record.moving(List.of(new JobRecord.OpenMove("move-1", HOST)));
        source.refresh(reader);
        assertEquals(List.of(new JobQuestion.Move(JOB, "move-1", HOST, true, "", Set.of("p0"))), reports());
    }

    @Test
    void shouldRefuseToMoveAJobWithSetsWhenNoControllerAnswers() throws Exception {
        answer = Optional.empty();
        String why = assertThrows(RequestException.class, () -> source.beginMove(JOB, TO, false))
                .getMessage();
        assertTrue(why.contains("--without-cluster"), why);
        List<InetSocketAddress> two = List.of(TO.get(0), new InetSocketAddress("10.0.0.8", 7411));
        String several = assertThrows(RequestException.class, () -> source.beginMove(JOB, two, true))
                .getMessage();
        assertTrue(several.contains("to one node only"), several);
        assertEquals(Map.of("p0", ""), answered());
    }

    @Test
    void shouldAnswerThatPodsWereMovedUntilAControllerHasTakenIt() throws Exception {
        moveWithoutCluster();
        assertEquals(Map.of("p0", "10.0.0.9:7411"), answered());
        // Another run of the service reads its note.
        start();
        assertEquals(Map.of("p0", "10.0.0.9:7411"), answered());
        assertFalse(source.refresh(reader));
        answer = Optional.of(Answer.refused("no target there has a session"));
        assertFalse(source.refresh(reader));
        assertEquals(Map.of("p0", "10.0.0.9:7411"), answered());
        assertTrue(asked.stream()
                .noneMatch(question -> question instanceof JobQuestion.Register register
                        && register.pods().isEmpty()));
        answer = Optional.of(Answer.OK);
        assertTrue(source.refresh(reader));
        JobQuestion.Move last = reports().get(reports().size() - 1);
        assertEquals("10.0.0.9:7411", last.to());
        assertEquals(Set.of("p0"), last.pods());
        assertEquals(Map.of(), answered());
    }

    @Test
    void shouldForgetAMigrationWhenTheJobWasStartedAgain() throws Exception {
        moveWithoutCluster();
        assertEquals(Map.of("p0", "10.0.0.9:7411"), answered());
        answer = Optional.of(Answer.OK);
        record = record.in(JobPhase.RUNNING, record.numbers().nextRestart(7).released(), false, "");
        source.refresh(reader);
        assertEquals(List.of(), reports());
        assertEquals(Map.of(), answered());
    }

    @Test
    void shouldMoveAgainWhenAMigrationMovedNothing() throws Exception {
        source.refresh(reader);
        answer = Optional.empty();
        source.beginMove(JOB, TO, true);
        source.endMove(JOB, Optional.empty());
        source.beginMove(JOB, TO, true);
        assertEquals(Map.of("p0", ""), answered());
    }
}
