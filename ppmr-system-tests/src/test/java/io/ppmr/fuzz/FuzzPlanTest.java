package io.ppmr.fuzz;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class FuzzPlanTest {
    @Test
    void shouldGiveTheParsersAsManyInputsAsIsPromised() {
        assertTrue(Stream.of(FuzzPlan.values()).mapToInt(FuzzPlan::gate).sum() >= 180_000);
        assertTrue(Stream.of(FuzzPlan.values()).mapToInt(FuzzPlan::all).sum() >= 10_000_000);
        assertTrue(Stream.of(FuzzPlan.values()).allMatch(plan -> plan.all() >= 500_000));
    }
}
