package io.ppmr.daemon.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.service.HealthJudge.HealthResult;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

class HealthJudgeTest {
    private static final HealthTrigger.Settings SETTINGS = new HealthTrigger.Settings(
            Optional.of(List.of("x")),
            Duration.ofSeconds(1),
            Duration.ofSeconds(1),
            3,
            4,
            Duration.ofSeconds(100),
            false);

    private final HealthJudge judge = new HealthJudge(SETTINGS);
    private long nowNs = -5;

    /** Feeds answers, a second apart: "+" well, "-" failing, "?" unknown. Returns the answers after which it fires. */
    private String fires(String answers) {
        StringBuilder fired = new StringBuilder();
        for (int i = 0; i < answers.length(); i++) {
            char c = answers.charAt(i);
            HealthResult answer = c == '+' ? HealthResult.WELL : c == '-' ? HealthResult.GOING : HealthResult.UNKNOWN;
            fired.append(judge.fires(answer, nowNs) ? '!' : '.');
            nowNs += 1_000_000_000L;
        }
        return fired.toString();
    }

    @Test
    void shouldFireOnceWhenBadAnswersFollowEachOther() {
        assertEquals("......!..", fires("+--+-----"));
    }

    @Test
    void shouldNotFireWhenTheCheckFlaps() {
        assertEquals("................", fires("--+--+-+--+--+--"));
        assertEquals(".........", fires("+-?--?--?"));
    }

    @Test
    void shouldTryAgainAfterTheRestWhenNothingWasMoved() {
        assertEquals("..!", fires("---"));
        assertEquals(".".repeat(99) + "!", fires("-".repeat(100)));
    }

    @Test
    void shouldNeedGoodAnswersInARowWhenAJobWasMoved() {
        assertEquals("..!", fires("---"));
        judge.moved();
        nowNs += Duration.ofSeconds(200).toNanos();
        assertEquals(".............", fires("------+++---+"));
        assertTrue(judge.state().contains("3 more good answers"), judge.state());
        assertEquals("......!", fires("++++---"));
    }

    @Test
    void shouldRestWhenTheNodeRecoversAtOnce() {
        assertEquals("..!", fires("---"));
        judge.moved();
        assertEquals(".......", fires("++++---"));
    }

    /** Tests for any answers that a job is moved at most once without four consecutive good ones. */
    @Property
    void shouldMoveNothingTwiceWhenAnswersAreAny(@ForAll List<Boolean> answers) {
        HealthJudge any = new HealthJudge(SETTINGS);
        int good = 0;
        int movedSinceRecovery = 0;
        long timeNs = 0;
        for (boolean well : answers) {
            good = well ? good + 1 : 0;
            if (good >= SETTINGS.healthRecoveries()) {
                movedSinceRecovery = 0;
            }
            timeNs += Duration.ofSeconds(1000).toNanos();
            if (any.fires(well ? HealthResult.WELL : HealthResult.GOING, timeNs)) {
                any.moved();
                movedSinceRecovery++;
            }
            assertTrue(movedSinceRecovery <= 1);
        }
    }
}
