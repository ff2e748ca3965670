package io.ppmr.daemon.service;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.daemon.service.HealthJudge.HealthResult;
import io.ppmr.daemon.service.HealthTrigger.HealthAnswer;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HealthAnswerTest {
    @Test
    void shouldReadTheTimeLeftOutOfTheLastLine() {
        assertEquals(
                new HealthAnswer(HealthResult.GOING, Optional.of(Duration.ofSeconds(90))),
                HealthAnswer.of(false, "a fan is broken\nseconds=90\n\n"));
    }

    @Test
    void shouldMoveAtOnceWhenNoTimeIsLeft() {
        assertEquals(
                Optional.of(Duration.ofSeconds(1)),
                HealthAnswer.of(false, "seconds=0").timeLeft());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "a fan is broken",
                "seconds=90\na fan is broken",
                "seconds=-1",
                "seconds=99999999999",
                "seconds=1.5"
            })
    void shouldTakeAnyOtherOutputForNoTime(String output) {
        assertEquals(new HealthAnswer(HealthResult.WELL, Optional.empty()), HealthAnswer.of(true, output));
    }
}
