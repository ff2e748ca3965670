package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.daemon.jobs.JobName;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class JobRulesTest {
    private static final int KEEP = 2;
    private static final JobEvent.CheckpointOrdered ORDER = new JobEvent.CheckpointOrdered("1-1-00000000", 60);

    private JobState state = JobState.of(JobRecord.of("0a", new JobName(1000, "ring"), 2, JobRecord.JobSchedule.NONE));

    private Optional<String> apply(JobEvent event) {
        JobRules.JobTransition step = JobRules.apply(state, event, KEEP);
        state = step.next();
        return step.refusal();
    }

    private void register() {
        apply(new JobEvent.Registered("n1", 2, Set.of("p1"), JobRecord.JobSchedule.NONE));
        apply(new JobEvent.Registered("n2", 2, Set.of("p2"), JobRecord.JobSchedule.NONE));
    }

    private void checkpoint() {
        long round = state.record().numbers().round() + 1;
        long incarnation = state.record().numbers().incarnation();
        apply(new JobEvent.CheckpointOrdered(incarnation + "-" + round + "-00000000", 60));
        for (String host : Set.of("n1", "n2")) {
            apply(new JobEvent.Out(host, incarnation, round));
        }
        for (String number : Set.of("1", "2")) {
            NodeImages images = new NodeImages(Map.of("p" + number, "d"), 10, 5, 4, 3);
            apply(new JobEvent.Imaged("n" + number, incarnation, round, images, 0));
        }
    }

    private void requireRefused(JobEvent event, String words) {
        JobState before = state;
        Optional<String> refusal = apply(event);
        assertTrue(refusal.filter(why -> why.contains(words)).isPresent(), () -> event + ": " + refusal);
        assertEquals(before, state);
    }

    private JobEvent restart(String set, Map<String, Set<String>> plan) {
        long last = state.record().numbers().restart();
        return new JobEvent.RestartOrdered(set, plan, last + 1, new JobEvent.PlanBasis(last, state.places()), false);
    }

    @Test
    void shouldBeRefusedWhileMembersAreMissing() {
        apply(new JobEvent.Registered("n1", 2, Set.of("p1"), JobRecord.JobSchedule.NONE));
        requireRefused(ORDER, "1 are registered");
    }

    @Test
    void shouldKeepTheNewestSets() {
        register();
        checkpoint();
        checkpoint();
        checkpoint();
        assertEquals(KEEP, state.sets().size());
        assertEquals(3, state.sets().get(1).round());
        assertEquals(20, state.sets().get(1).bytes());
        assertEquals(RoundOutcome.CHECKPOINTED, state.record().last().outcome());
    }

    @Test
    void shouldBeVoidWhenImagesAreOfOtherPods() {
        register();
        apply(ORDER);
        apply(new JobEvent.Out("n1", 1, 1));
        apply(new JobEvent.Out("n2", 1, 1));
        apply(new JobEvent.Imaged("n1", 1, 1, new NodeImages(Map.of("p9", "d"), 1, 1, 1, 1), 0));
        assertEquals(RoundOutcome.VOID, state.record().last().outcome());
        assertTrue(state.sets().isEmpty());
    }

    @Test
    void shouldRefuseAPodThatIsRecordedOnAnotherNode() {
        register();
        requireRefused(
                new JobEvent.Registered("n3", 2, Set.of("p1"), JobRecord.JobSchedule.NONE), "recorded on node n1");
        requireRefused(
                new JobEvent.Registered("n3", 2, Set.of("p3"), JobRecord.JobSchedule.NONE),
                "3 pods would be registered");
        requireRefused(new JobEvent.Registered("n3", 5, Set.of("p3"), JobRecord.JobSchedule.NONE), "has 2 members");
    }

    @Test
    void shouldRefuseANewJobWhenSetsOfAnEarlierOneAreThere() {
        register();
        checkpoint();
        apply(new JobEvent.Registered("n1", 2, Set.of(), JobRecord.JobSchedule.NONE));
        apply(new JobEvent.Registered("n2", 2, Set.of(), JobRecord.JobSchedule.NONE));
        requireRefused(
                new JobEvent.Registered("n1", 2, Set.of("p1"), JobRecord.JobSchedule.NONE), "sets of an earlier run");
    }

    @Test
    void shouldRefuseACheckpointAndARestartWhileAPodMoves() {
        register();
        checkpoint();
        apply(new JobEvent.MoveBegun("m", "n1", Set.of()));
        requireRefused(ORDER, "are being moved from node n1");
        requireRefused(restart("1-1-00000000", Map.of("n1", Set.of("p1", "p2"))), "are being moved");
        apply(new JobEvent.MoveEnded("m", "n1", "n3", Set.of("p1")));
        assertEquals(Map.of("n2", Set.of("p2"), "n3", Set.of("p1")), new TreeMap<>(state.places()));
        assertEquals(Optional.empty(), apply(ORDER));
    }

    @Test
    void shouldRefuseAPlanThatDoesNotHaveEachMemberOnce() {
        register();
        checkpoint();
        for (Map<String, Set<String>> plan : Set.of(
                Map.of("n1", Set.of("p1")),
                Map.of("n1", Set.of("p1"), "n2", Set.of("p1", "p2")),
                Map.<String, Set<String>>of())) {
            requireRefused(restart("1-1-00000000", plan), "each member once");
        }
        requireRefused(restart("1-9-00000000", Map.of("n1", Set.of("p1", "p2"))), "has no set");
    }

    @Test
    void shouldPlaceThePodsWhereTheyWereRestarted() {
        register();
        checkpoint();
        apply(restart("1-1-00000000", Map.of("n7", Set.of("p1"), "n8", Set.of("p2"))));
        apply(new JobEvent.PodsRestored("n7", 1));
        assertEquals(JobPhase.RESTARTING, state.record().phase());
        apply(new JobEvent.PodsRestored("n8", 1));
        assertEquals(JobPhase.RELEASING, state.record().phase());
        // After RELEASE no failure ends the restart.
        apply(new JobEvent.StepFailed("limit"));
        apply(new JobEvent.RestoreFailed("n8", 1, "late"));
        assertEquals(JobPhase.RELEASING, state.record().phase());
        apply(new JobEvent.Released("n7", 1));
        apply(new JobEvent.Released("n8", 1));
        assertEquals(JobPhase.RUNNING, state.record().phase());
        assertEquals(2, state.record().numbers().incarnation());
        assertEquals(Set.of("n7", "n8"), state.places().keySet());
    }

    @Test
    void shouldRefuseAPlanThatWasMadeFromAnotherState() {
        register();
        checkpoint();
        Map<String, Set<String>> plan = Map.of("n1", Set.of("p1"), "n2", Set.of("p2"));
        JobEvent early = restart("1-1-00000000", plan);
        apply(new JobEvent.Registered("n2", 2, Set.of(), JobRecord.JobSchedule.NONE));
        requireRefused(early, "was changed while its restart was planned");
        JobEvent first = restart("1-1-00000000", plan);
        assertEquals(Optional.empty(), apply(first));
        apply(new JobEvent.StepFailed("limit"));
        requireRefused(first, "was changed while its restart was planned");
    }

    @Test
    void shouldDropTheNodeThatIsOffWithItsMigrations() {
        register();
        checkpoint();
        apply(new JobEvent.MoveBegun("m", "n1", Set.of()));
        apply(new JobEvent.NodeOff("n1"));
        assertEquals(Set.of("n2"), state.places().keySet());
        assertTrue(state.record().moves().isEmpty());
        assertEquals(
                Optional.empty(), apply(new JobEvent.Registered("n3", 2, Set.of("p1"), JobRecord.JobSchedule.NONE)));
    }

    @Test
    void shouldPlaceThePodsOfAMigrationThatWasNotRecorded() {
        register();
        checkpoint();
        // The pods of the second migration are recorded where the first one took them from.
        JobEvent second = new JobEvent.MoveEnded("b", "n3", "n4", Set.of("p1"));
        requireRefused(second, "recorded on node n1");
        assertEquals(Optional.empty(), apply(new JobEvent.MoveEnded("a", "n1", "n3", Set.of("p1"))));
        assertEquals(Map.of("n2", Set.of("p2"), "n3", Set.of("p1")), new TreeMap<>(state.places()));
        assertEquals(Optional.empty(), apply(second));
        assertEquals(Map.of("n2", Set.of("p2"), "n4", Set.of("p1")), new TreeMap<>(state.places()));
        requireRefused(new JobEvent.MoveEnded("c", "n4", "", Set.of("p1")), "is unknown");
        apply(ORDER);
        assertTrue(apply(new JobEvent.MoveEnded("c", "n4", "n5", Set.of("p1"))).isPresent());
        assertEquals(RoundOutcome.VOID, state.record().last().outcome());
        assertEquals(Optional.empty(), apply(new JobEvent.MoveEnded("c", "n4", "n5", Set.of("p1"))));
    }

    @Test
    void shouldBeUncertainUntilAllPodsAreRegisteredWhenANodeWithPodsIsOff() {
        register();
        checkpoint();
        apply(new JobEvent.NodeOff("n3"));
        assertEquals(false, state.record().uncertain());
        apply(new JobEvent.NodeOff("n1"));
        assertEquals(true, state.record().uncertain());
        apply(new JobEvent.Registered("n3", 2, Set.of("p1"), JobRecord.JobSchedule.NONE));
        assertEquals(false, state.record().uncertain());
        apply(new JobEvent.MoveBegun("m", "n3", Set.of("p1")));
        apply(new JobEvent.MoveEnded("m", "n3", "", Set.of("p1")));
        assertEquals(true, state.record().uncertain());
        apply(restart("1-1-00000000", Map.of("n7", Set.of("p1", "p2"))));
        apply(new JobEvent.PodsRestored("n7", state.record().numbers().restart()));
        assertEquals(false, state.record().uncertain());
    }

    @Test
    void shouldIgnoreReportsOfOtherRoundsNodesAndRestarts() {
        register();
        apply(ORDER);
        JobState before = state;
        apply(new JobEvent.Out("n1", 1, 7));
        apply(new JobEvent.Out("n1", 2, 1));
        apply(new JobEvent.Out("n9", 1, 1));
        apply(new JobEvent.Voided("n9", 1, 1, RoundOutcome.VOID, ""));
        apply(new JobEvent.Imaged("n1", 1, 1, new NodeImages(Map.of("p1", "d"), 1, 1, 1, 1), 0));
        apply(new JobEvent.PodsRestored("n1", 1));
        apply(new JobEvent.Released("n1", 1));
        assertEquals(before, state);
    }

    // ---- recoveries ---------------------------------------------------------------------------------------------

    private long recover(Map<String, Set<String>> plan) {
        long last = state.record().numbers().restart();
        String set = state.sets().get(0).id();
        JobEvent order =
                new JobEvent.RestartOrdered(set, plan, last + 1, new JobEvent.PlanBasis(last, state.places()), true);
        assertEquals(Optional.empty(), apply(order));
        return last + 1;
    }

    @Test
    void shouldRestoreNothingBeforeThePodsOfAllLivingNodesHaveEnded() {
        register();
        checkpoint();
        apply(new JobEvent.NodeOff("n2"));
        long number = recover(Map.of("n1", Set.of("p1"), "n3", Set.of("p2")));
        assertEquals(JobPhase.ENDING, state.record().phase());
        apply(new JobEvent.PodsRestored("n1", number));
        apply(new JobEvent.PodsEnded("n1", number - 1));
        apply(new JobEvent.PodsEnded("n3", number));
        assertEquals(JobPhase.ENDING, state.record().phase());
        apply(new JobEvent.PodsEnded("n1", number));
        assertEquals(JobPhase.RESTARTING, state.record().phase());
        apply(new JobEvent.PodsRestored("n1", number));
        apply(new JobEvent.PodsRestored("n3", number));
        assertEquals(JobPhase.RELEASING, state.record().phase());
        assertEquals(2, state.record().numbers().incarnation());
        apply(new JobEvent.Released("n1", number));
        apply(new JobEvent.Released("n3", number));
        assertEquals(RoundOutcome.RECOVERED, state.record().last().outcome());
        assertEquals(Map.of("n1", Set.of("p1"), "n3", Set.of("p2")), state.places());
    }

    @Test
    void shouldWaitForASilentNodeUntilItIsOffWhenPodsEnd() {
        register();
        checkpoint();
        long number = recover(Map.of("n1", Set.of("p1", "p2")));
        apply(new JobEvent.PodsEnded("n1", number));
        apply(new JobEvent.StepFailed("the time is over"));
        assertEquals(JobPhase.ENDING, state.record().phase());
        apply(new JobEvent.NodeOff("n2"));
        assertEquals(JobPhase.RESTARTING, state.record().phase());
    }

    @Test
    void shouldFailARecoveryWhoseSpareIsOffAndNotLetPodsRegisterOrMoveWhileOthersEnd() {
        register();
        checkpoint();
        long number = recover(Map.of("n1", Set.of("p1"), "n3", Set.of("p2")));
        requireRefused(new JobEvent.Registered("n1", 2, Set.of(), JobRecord.JobSchedule.NONE), "is being restarted");
        requireRefused(new JobEvent.MoveBegun("m", "n1", Set.of("p1")), "is being restarted");
        requireRefused(ORDER, "in phase ending");
        apply(new JobEvent.NodeOff("n3"));
        assertEquals(JobPhase.RUNNING, state.record().phase());
        assertEquals(RoundOutcome.FAILED, state.record().last().outcome());
        assertEquals(number, state.record().last().number());
    }

    @Test
    void shouldRestoreAtOnceWhenNoNodeOfTheRecordIsLeft() {
        register();
        checkpoint();
        apply(new JobEvent.NodeOff("n1"));
        apply(new JobEvent.NodeOff("n2"));
        recover(Map.of("n3", Set.of("p1", "p2")));
        assertEquals(JobPhase.RESTARTING, state.record().phase());
        assertTrue(state.record().numbers().isRecovery());
    }
}
