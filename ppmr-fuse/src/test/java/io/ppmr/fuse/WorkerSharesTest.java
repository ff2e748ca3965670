package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.Deque;
import org.junit.jupiter.api.Test;

class WorkerSharesTest {
    private final WorkerShares shares = new WorkerShares();
    private final Deque<Integer> serving = new ArrayDeque<>();

    private boolean begin(int uid) {
        int slot = shares.reserveSlot();
        boolean begun = shares.begin(slot, uid);
        if (begun) {
            serving.push(slot);
        } else {
            shares.end(slot);
            shares.releaseSlot(slot);
        }
        return begun;
    }

    private int beginAll(int uid) {
        int begun = 0;
        while (begin(uid)) {
            begun++;
        }
        return begun;
    }

    @Test
    void shouldKeepSlotsFreeForRootWhenUsersReserveTheMaximum() {
        assertEquals(WorkerShares.OF_A_USER, beginAll(20_001));
        assertEquals(WorkerShares.OF_A_USER, beginAll(20_002));
        // An unmapped user of a namespace, whose number is negative here.
        assertEquals(WorkerShares.OF_USERS - 2 * WorkerShares.OF_A_USER, beginAll(-1));
        assertFalse(begin(20_004));
        for (int call = serving.size(); call < FuseWorkers.WORKERS_MAX; call++) {
            assertTrue(begin(0));
        }
    }

    @Test
    void shouldReleaseTheShareWhenCallsEnd() {
        for (int round = 0; round < 3; round++) {
            assertEquals(WorkerShares.OF_A_USER, beginAll(20_001));
            while (!serving.isEmpty()) {
                int slot = serving.pop();
                shares.end(slot);
                shares.end(slot);
                shares.releaseSlot(slot);
            }
        }
    }
}
