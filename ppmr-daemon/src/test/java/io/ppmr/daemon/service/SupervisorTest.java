package io.ppmr.daemon.service;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** The environment variables that systemd would set. */
class SupervisorTest {
    @Test
    void shouldKnowAUnitsMainProcessAndNoneOfItsChildrenByTheEnvironment() {
        long own = ProcessHandle.current().pid();
        assertTrue(Supervisor.isUnit(Map.of("SYSTEMD_EXEC_PID", Long.toString(own))));
        assertFalse(Supervisor.isUnit(Map.of()));
        // These variables are inherited by a child, because the tests' own parent is not systemd.
        assertFalse(Supervisor.isUnit(Map.of("SYSTEMD_EXEC_PID", Long.toString(own - 1), "INVOCATION_ID", "0f")));
    }
}
