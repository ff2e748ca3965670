package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobSet.SetState;
import java.util.List;
import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class SetRulesTest {
    private static final int KEEP = 2;

    private static JobSet set(int round, long incarnation, SetState state) {
        return new JobSet("1-" + round + "-00000000", incarnation, round, "d", 1, 1, 1, 1, round, state);
    }

    private static JobSet set(int round, SetState state) {
        return set(round, 1, state);
    }

    private static List<String> words(List<JobSet> sets) {
        return sets.stream().map(one -> one.round() + " " + one.state().word()).toList();
    }

    @Test
    void shouldCopyTheFirstSetAtOnceAndTheNewestWhenItIsSafe() {
        List<JobSet> one = SetRules.withNew(List.of(), set(1, SetState.LOCAL), true, KEEP);
        assertEquals(List.of("1 copying"), words(one));
        List<JobSet> two = SetRules.withNew(one, set(2, SetState.LOCAL), true, KEEP);
        List<JobSet> three = SetRules.withNew(two, set(3, SetState.LOCAL), true, KEEP);
        assertEquals(List.of("1 copying", "2 local", "3 local"), words(three));
        assertEquals(
                List.of("1 safe", "2 local", "3 copying"),
                words(SetRules.copied(three, three.get(0).id(), KEEP)));
    }

    @Test
    void shouldRemoveAnOlderSafeSetOnlyWhenANewerOneIsSafe() {
        List<JobSet> sets = List.of(set(1, SetState.SAFE), set(2, SetState.LOCAL), set(3, SetState.COPYING));
        assertEquals(
                List.of("2 local", "3 safe"),
                words(SetRules.copied(sets, sets.get(2).id(), KEEP)));
    }

    @Test
    void shouldCopyNothingWhenTheJobHasNoSecondPlace() {
        List<JobSet> sets = SetRules.withNew(
                List.of(set(1, SetState.LOCAL), set(2, SetState.LOCAL)), set(3, SetState.LOCAL), false, KEEP);
        assertEquals(List.of("2 local", "3 local"), words(sets));
    }

    @Test
    void shouldGiveUpACopyOfAnEarlierIncarnation() {
        List<JobSet> sets =
                SetRules.withNew(List.of(set(1, 1, SetState.COPYING)), set(2, 2, SetState.LOCAL), true, KEEP);
        assertEquals(List.of("1 local", "2 copying"), words(sets));
    }

    @Test
    void shouldEndACopyThatDoesNotAdvanceForANewerSet() {
        List<JobSet> one = List.of(set(1, SetState.COPYING));
        assertEquals(List.of("1 local"), words(SetRules.ended(one, one.get(0).id(), KEEP)));
        List<JobSet> two = List.of(set(1, SetState.COPYING), set(2, SetState.LOCAL));
        assertEquals(
                List.of("1 local", "2 copying"),
                words(SetRules.ended(two, two.get(0).id(), KEEP)));
    }

    /** Once a set was safe there is a safe one, in any order of checkpoints, copies and restarts. */
    @Property
    void shouldNeverRemoveTheLastSafeSet(@ForAll @Size(max = 40) List<@IntRange(max = 3) Integer> events) {
        List<JobSet> sets = List.of();
        int round = 0;
        long incarnation = 1;
        int safest = 0;
        for (int event : events) {
            Optional<JobSet> copying = SetRules.copying(sets);
            if (event == 0) {
                sets = SetRules.withNew(sets, set(++round, incarnation, SetState.LOCAL), true, KEEP);
            } else if (event == 1 && copying.isPresent()) {
                safest = (int) copying.get().round();
                sets = SetRules.copied(sets, copying.get().id(), KEEP);
            } else if (event == 2 && copying.isPresent()) {
                sets = SetRules.ended(sets, copying.get().id(), KEEP);
            } else if (event == 3) {
                incarnation++;
            }
            int last = safest;
            assertTrue(
                    last == 0 || sets.stream().anyMatch(one -> one.round() == last && one.state() == SetState.SAFE),
                    () -> "set " + last + " is gone");
            assertTrue(sets.size() <= KEEP + 2, "old sets stay: " + words(sets));
            assertTrue(
                    sets.stream().filter(one -> one.state() == SetState.COPYING).count() <= 1, "two are copied");
        }
    }
}
