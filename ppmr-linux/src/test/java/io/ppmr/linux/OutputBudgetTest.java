package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class OutputBudgetTest {
    @Test
    void shouldKeepAShortOutputWholeWhenTheSharedBudgetIsExhausted() {
        OutputBudget budget = new OutputBudget(1000, 100, 600);
        try (OutputBudget.BudgetShare first = budget.open();
                OutputBudget.BudgetShare second = budget.open();
                OutputBudget.BudgetShare third = budget.open()) {
            assertEquals(600, first.admit(5000));
            assertTrue(first.isTruncated());
            assertEquals(600, second.admit(5000));
            assertEquals(100, third.admit(100));
            assertFalse(third.isTruncated());
            assertEquals(0, third.admit(1));
            assertTrue(third.isTruncated());
        }
    }

    @Test
    void shouldReturnTheBytesOfAShareWhenItIsClosed() {
        OutputBudget budget = new OutputBudget(500, 0, 500);
        for (int i = 0; i < 3; i++) {
            try (OutputBudget.BudgetShare share = budget.open()) {
                assertEquals(500, share.admit(500));
                share.close();
                assertEquals(0, share.admit(1), "it is closed");
            }
        }
    }

    @Property(tries = 300)
    void shouldNeverAdmitMoreThanTheBudget(@ForAll @Size(max = 60) List<@IntRange(min = 0, max = 400) Integer> pieces) {
        OutputBudget budget = new OutputBudget(1000, 50, 300);
        List<OutputBudget.BudgetShare> shares = new ArrayList<>();
        int[] kept = new int[4];
        for (int i = 0; i < kept.length; i++) {
            shares.add(budget.open());
        }
        for (int i = 0; i < pieces.size(); i++) {
            kept[i % kept.length] += shares.get(i % kept.length).admit(pieces.get(i));
        }
        int beyondTheirOwn = 0;
        for (int bytes : kept) {
            assertTrue(bytes <= 300, () -> "one share has " + bytes);
            beyondTheirOwn += Math.max(0, bytes - 50);
        }
        assertTrue(beyondTheirOwn <= 1000, "more than is shared");
        shares.forEach(OutputBudget.BudgetShare::close);
        try (OutputBudget.BudgetShare last = budget.open()) {
            assertEquals(300, last.admit(300));
        }
    }
}
