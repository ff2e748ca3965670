package io.ppmr.cli;

import io.ppmr.target.Arrival;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** The migrations that come to a target, in words; knows the rates once it has seen them twice. For one thread. */
final class ArrivalView {
    private static final double MIB = 1024.0 * 1024.0;
    private static final int SHOWN_OF_ID = 8;

    private final Map<String, Arrival> before = new HashMap<>();

    /** A line for each; one that is gone since the last look has a line, too. */
    List<String> lines(List<Arrival> now) {
        List<String> lines = new ArrayList<>(
                now.stream().map(arrival -> text(arrival, rate(arrival))).toList());
        Set<String> gone = new HashSet<>(before.keySet());
        before.clear();
        for (Arrival arrival : now) {
            gone.remove(arrival.id());
            before.put(arrival.id(), arrival);
        }
        gone.forEach(id -> lines.add("migration " + shortened(id) + " is over here; ppmr history says how it ended"));
        return lines;
    }

    private double rate(Arrival arrival) {
        Arrival last = before.get(arrival.id());
        if (last == null || arrival.seconds() <= last.seconds()) {
            return arrival.bytesPerSecond();
        }
        return (arrival.arrivedBytes() - last.arrivedBytes()) / (arrival.seconds() - last.seconds());
    }

    /** One in one line, with its average rate. */
    static String text(Arrival arrival) {
        return text(arrival, arrival.bytesPerSecond());
    }

    private static String text(Arrival arrival, double bytesPerSecond) {
        String step = arrival.step().name().toLowerCase(Locale.ROOT).replace('_', ' ');
        if (arrival.source().isEmpty()) {
            return "migration " + shortened(arrival.id()) + ", taken up again: " + step;
        }
        return String.format(
                Locale.ROOT,
                "migration %s of job %s from %s: %6.2f s  %-8s  arrived %s of about %s  read %s  staged %s  %.0f MiB/s",
                shortened(arrival.id()),
                arrival.job(),
                arrival.source(),
                arrival.seconds(),
                step,
                ProgressView.mib(arrival.arrivedBytes()),
                ProgressView.mib(arrival.expectedBytes()),
                ProgressView.mib(arrival.readBytes()),
                ProgressView.mib(arrival.stagedBytes()),
                bytesPerSecond / MIB);
    }

    private static String shortened(String id) {
        return id.substring(0, Math.min(SHOWN_OF_ID, id.length()));
    }
}
