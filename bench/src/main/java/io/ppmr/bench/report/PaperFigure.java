package io.ppmr.bench.report;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * A figure: values at places along an axis, in series. Immutable.
 *
 * @param key the name of its file
 * @param places the places in their order
 * @param limits what the machine can do at most, by name
 */
record PaperFigure(
        String key,
        String title,
        String axis,
        String unit,
        List<String> places,
        List<FigureSeries> series,
        Map<String, Double> limits) {
    PaperFigure {
        places = List.copyOf(places);
        series = List.copyOf(series);
        // In the order of their names, so that equal results make equal files.
        limits = new TreeMap<>(limits);
    }

    /** A value with its least and largest run. */
    record Spread(double median, double least, double most) {
        static Spread of(List<Double> figures) {
            List<Double> sorted = figures.stream().sorted().toList();
            int count = sorted.size();
            return new Spread(
                    (sorted.get((count - 1) / 2) + sorted.get(count / 2)) / 2, sorted.get(0), sorted.get(count - 1));
        }
    }

    /** Values by place. */
    record FigureSeries(String name, Map<String, Spread> values) {
        FigureSeries {
            values = Map.copyOf(values);
        }

        Optional<Spread> at(String place) {
            return Optional.ofNullable(values.get(place));
        }
    }

    /** Returns this figure with the series and limits of another set of results beside its own. */
    PaperFigure beside(PaperFigure other, String suffix) {
        Set<String> allPlaces = new LinkedHashSet<>(places);
        allPlaces.addAll(other.places);
        List<FigureSeries> all = new ArrayList<>(series);
        other.series.forEach(one -> all.add(new FigureSeries(one.name() + suffix, one.values())));
        Map<String, Double> allLimits = new TreeMap<>(limits);
        other.limits.forEach((name, value) -> allLimits.put(name + suffix, value));
        return new PaperFigure(key, title, axis, unit, List.copyOf(allPlaces), all, allLimits);
    }

    /** Returns the largest value. */
    double most() {
        double most =
                limits.values().stream().mapToDouble(Double::doubleValue).max().orElse(0);
        for (FigureSeries one : series) {
            for (Spread value : one.values().values()) {
                most = Math.max(most, value.most());
            }
        }
        return most;
    }
}
