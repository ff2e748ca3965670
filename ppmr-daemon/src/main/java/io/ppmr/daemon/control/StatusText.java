package io.ppmr.daemon.control;

import io.ppmr.daemon.service.MigrationText;
import io.ppmr.migration.target.Arrival;
import io.ppmr.transaction.operator.OpenMigration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * The status of a service in lines for people. The command line prints them. A service sends them to its native client,
 * which has no other text. Any thread.
 */
public final class StatusText {
    private StatusText() {}

    /** Describes what a service is doing. */
    public static List<String> lines(ControlStatus status) {
        List<String> lines = new ArrayList<>();
        if (status.arrivals() != null && status.busy()) {
            lines.addAll(new ArrivalView().lines(status.arrivals()));
        } else if (!status.busy() && moves(status)) {
            lines.add((status.open().isEmpty() ? "idle" : "nothing moves now")
                    + (status.last() == null
                            ? ""
                            : "; the last migration " + status.last().migrationId() + ": "
                                    + MigrationText.of(status.last())));
        } else if (status.busy()) {
            String what = "busy: migration " + status.id() + (status.job() == null ? "" : " of job " + status.job());
            lines.add(what + ", " + (status.progress() == null ? "starting" : MigrationText.of(status.progress())));
            if (status.progress() != null && !status.progress().pages().isEmpty()) {
                lines.add("pages " + status.progress().pages());
            }
        }
        status.open().forEach(one -> lines.add(open(one)));
        if (!status.waiting().isEmpty()) {
            lines.add("to be moved after that: " + String.join(", ", status.waiting()));
        }
        if (status.transport() != null) {
            lines.add((moves(status) ? "transport" : status.role()) + ": " + status.transport());
        }
        if (status.installed() != null) {
            lines.add("version " + status.installed()
                    + " is installed, and waits: this service continues in its own until" + " it is restarted");
        }
        if (status.health() != null) {
            lines.add("health: " + status.health());
        }
        return lines;
    }

    /** A process of an optional part, such as a controller, moves nothing. */
    private static boolean moves(ControlStatus status) {
        return status.role().equals("source") || status.role().equals("target");
    }

    /** Describes in one line a migration that an operator should know of. */
    private static String open(OpenMigration one) {
        String held = one.heldRanks().isEmpty() ? "no rank is held here" : "held here: ranks " + one.heldRanks();
        return "open: migration " + one.id() + ", " + one.phase() + " since "
                + since(one.sinceEpochMs()) + ", " + held
                + (one.recovered() ? ", recovered after a restart of the service" : "") + "; "
                + (one.waitsFor() == null ? "it continues without a command" : one.waitsFor());
    }

    /** This is made on demand, because the formats of all locales need some time to load. */
    private static String since(long epochMs) {
        return DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss", Locale.ROOT)
                .withZone(ZoneId.systemDefault())
                .format(Instant.ofEpochMilli(epochMs));
    }

    /** Describes the migrations that arrive at a target. It has rates from the second call on. It is for one thread. */
    public static final class ArrivalView {
        private final Map<String, Arrival> before = new HashMap<>();

        /** Returns a line for each, and for each that ended since the last call. */
        public List<String> lines(List<Arrival> now) {
            List<String> lines = new ArrayList<>(now.stream()
                    .map(arrival -> MigrationText.of(arrival, rate(arrival)))
                    .toList());
            Set<String> gone = new HashSet<>(before.keySet());
            before.clear();
            for (Arrival arrival : now) {
                gone.remove(arrival.id());
                before.put(arrival.id(), arrival);
            }
            gone.forEach(id -> lines.add(
                    "migration " + MigrationText.shortened(id) + " is over here; ppmr history shows its outcome"));
            return lines;
        }

        private double rate(Arrival arrival) {
            Arrival last = before.get(arrival.id());
            if (last == null || arrival.seconds() <= last.seconds()) {
                return arrival.bytesPerSecond();
            }
            return (arrival.arrivedBytes() - last.arrivedBytes()) / (arrival.seconds() - last.seconds());
        }
    }
}
