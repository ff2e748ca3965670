package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.daemon.control.StatusText.ArrivalView;
import io.ppmr.migration.target.Arrival;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Tests the output for an operator about the migrations that arrive at a target. */
class ArrivalViewTest {
    private static final long MIB = 1 << 20;

    private static Arrival arrival(double seconds, long arrivedBytes) {
        return new Arrival(
                "59568821-3c0e",
                "solver",
                "192.0.2.10:40000",
                Arrival.ArrivalStep.ARRIVING,
                seconds,
                100 * MIB,
                arrivedBytes,
                MIB,
                0,
                arrivedBytes / seconds);
    }

    @Test
    void shouldShowTheRateSinceTheLastLookWhenItLooksAgain() {
        ArrivalView view = new ArrivalView();
        String start = "migration 59568821 of job solver from 192.0.2.10:40000:   ";
        assertEquals(
                List.of(start + "2.00 s  arriving  arrived 10.0 MiB of about 100.0 MiB  read 1.0 MiB  staged 0.0 MiB"
                        + "  5 MiB/s"),
                view.lines(List.of(arrival(2, 10 * MIB))));
        assertEquals(
                List.of(start + "3.00 s  arriving  arrived 40.0 MiB of about 100.0 MiB  read 1.0 MiB  staged 0.0 MiB"
                        + "  30 MiB/s"),
                view.lines(List.of(arrival(3, 40 * MIB))));
        assertEquals(List.of("migration 59568821 is over here; ppmr history shows its outcome"), view.lines(List.of()));
        assertEquals(List.of(), view.lines(List.of()));
    }

    @Test
    void shouldSayWhatIsKnownWhenItWasTakenUpAgain() {
        Arrival recovered = new Arrival("abc", "", "", Arrival.ArrivalStep.HELD, 0, 0, 0, 0, 0, 0);
        assertEquals(List.of("migration abc, recovered: held"), new ArrivalView().lines(List.of(recovered)));
    }
}
