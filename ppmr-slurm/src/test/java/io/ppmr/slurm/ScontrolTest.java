package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class ScontrolTest {
    /** Lines as Slurm 22.05 prints them, some fields left out. */
    private static String line(String name, String state) {
        return "NodeName=" + name + " Arch=x86_64 CPUAlloc=3 NodeAddr=192.0.2.1 NodeHostName=" + name
                + " Version=22.05.8 RealMemory=1 State=" + state
                + " ThreadsPerCore=1 Partitions=all Reason=State=DRAIN of old [root@2026-11-21T16:39:54]\n";
    }

    private static boolean going(String state) {
        return Scontrol.parse(line("n1", state).replace("State=DRAIN of old", "none"))
                .get(0)
                .going();
    }

    @Test
    void shouldTakeANodeAsGoingWhenItIsSetToDrainOrExpectedToFail() {
        for (String state :
                List.of("IDLE+DRAIN", "MIXED+DRAIN", "ALLOCATED+DRAIN*", "DRAINED", "DRAINING", "FAILING")) {
            assertTrue(going(state), state);
        }
    }

    @Test
    void shouldLeaveANodeWhenItIsAtWork() {
        for (String state : List.of("IDLE", "MIXED", "ALLOCATED*", "ALLOCATED+COMPLETING", "IDLE+CLOUD", "DOWN*")) {
            assertEquals(false, going(state), state);
        }
    }

    @Test
    void shouldReadEveryNodeWhenSeveralArePrinted() {
        List<Scontrol.NodeState> nodes =
                Scontrol.parse((line("n1", "IDLE") + line("n2", "MIXED+DRAIN")).replace("State=DRAIN of old", "none"));
        assertEquals(
                List.of(
                        new Scontrol.NodeState("n1", "192.0.2.1", false),
                        new Scontrol.NodeState("n2", "192.0.2.1", true)),
                nodes);
    }
}
