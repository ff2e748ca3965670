package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.RecoverModel.Faults;
import io.ppmr.cluster.job.RecoverModel.Variant;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Searches all schedules of a job's recovery, also with rules that are broken on purpose. */
class RecoverModelTest {
    private static Optional<String> search(Variant variant, Faults faults, int members, boolean hasMove) {
        return new RecoverModel(variant, faults, members, hasMove).search(EnumSet.noneOf(RoundOutcome.class));
    }

    @Test
    void shouldRunEachPodOnceAndOneIncarnationInAnyScheduleOfTwoMembers() {
        Set<RoundOutcome> outcomes = EnumSet.noneOf(RoundOutcome.class);
        RecoverModel model = new RecoverModel(Variant.RIGHT, new Faults(0, 1, 1, 2), 2, false);
        assertEquals(Optional.empty(), model.search(outcomes));
        System.out.println("recovery: " + model.states() + " states");
        assertTrue(outcomes.containsAll(Set.of(RoundOutcome.RECOVERED, RoundOutcome.FAILED)), outcomes.toString());
    }

    @Test
    void shouldRunEachPodOnceWhenAMigrationIsOpenOrThreeMembersLoseANode() {
        assertEquals(Optional.empty(), search(Variant.RIGHT, new Faults(1, 0, 0, 1), 2, true));
        assertEquals(Optional.empty(), search(Variant.RIGHT, new Faults(1, 0, 0, 1), 3, false));
    }

    @ParameterizedTest
    @EnumSource(value = Variant.class, names = "RIGHT", mode = EnumSource.Mode.EXCLUDE)
    void shouldFindEachDefect(Variant variant) {
        boolean hasMove = variant == Variant.MIGRATION_NOT_ASKED;
        Faults faults =
                switch (variant) {
                    case REPORT_WITHOUT_ITS_NUMBER, WRITE_WITHOUT_VERSION -> new Faults(0, 0, 1, 2);
                    case RESTORED_BEFORE_ALL_ENDED -> new Faults(0, 0, 0, 1);
                    default -> new Faults(1, 0, 0, 1);
                };
        assertTrue(search(variant, faults, 2, hasMove).isPresent(), variant.toString());
    }
}
