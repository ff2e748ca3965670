package io.ppmr.cli;

import io.ppmr.daemon.service.MigrationText;
import io.ppmr.migration.target.Arrival;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The migrations that come to a target, in words; knows the rates once it has seen them twice. For one thread. */
final class ArrivalView {
    private final Map<String, Arrival> before = new HashMap<>();

    /** A line for each; one that is gone since the last look has a line, too. */
    List<String> lines(List<Arrival> now) {
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
                "migration " + MigrationText.shortened(id) + " is over here; ppmr history says how it ended"));
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
