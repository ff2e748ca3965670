package io.ppmr.bench;

import java.util.List;

/** The middle and the ends of a few figures. */
final class Figures {
    private Figures() {}

    static double median(List<Double> figures) {
        List<Double> sorted = figures.stream().sorted().toList();
        int count = sorted.size();
        if (count == 0) {
            return 0;
        }
        return count % 2 == 1 ? sorted.get(count / 2) : (sorted.get(count / 2 - 1) + sorted.get(count / 2)) / 2;
    }

    static double min(List<Double> figures) {
        return figures.stream().mapToDouble(Double::doubleValue).min().orElse(0);
    }

    static double max(List<Double> figures) {
        return figures.stream().mapToDouble(Double::doubleValue).max().orElse(0);
    }

    /** What stages give that share processors and follow one another: {@code 1/(1/a+1/b+...)}. */
    static double inSeries(double... stages) {
        double sum = 0;
        for (double stage : stages) {
            sum += 1 / stage;
        }
        return 1 / sum;
    }
}
