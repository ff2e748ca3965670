package io.ppmr.cli.report;

import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampledValue;
import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jfree.chart.axis.AxisSpace;
import org.jfree.chart.axis.NumberAxis;
import org.jfree.chart.axis.SymbolAxis;
import org.jfree.chart.labels.StandardXYSeriesLabelGenerator;
import org.jfree.chart.plot.CombinedDomainXYPlot;
import org.jfree.chart.plot.IntervalMarker;
import org.jfree.chart.plot.Marker;
import org.jfree.chart.plot.PlotOrientation;
import org.jfree.chart.plot.XYPlot;
import org.jfree.chart.renderer.xy.DeviationRenderer;
import org.jfree.chart.renderer.xy.StandardXYBarPainter;
import org.jfree.chart.renderer.xy.XYBarRenderer;
import org.jfree.chart.renderer.xy.XYLineAndShapeRenderer;
import org.jfree.chart.ui.Layer;
import org.jfree.data.xy.XYIntervalSeries;
import org.jfree.data.xy.XYIntervalSeriesCollection;
import org.jfree.data.xy.XYSeries;
import org.jfree.data.xy.XYSeriesCollection;

/**
 * The charts of one migration. Their only texts are the names of curves, and numbers: nothing that a user chose.
 * Immutable.
 */
final class MigrationCharts {
    /** Name of the step that is the pause of the job. */
    static final String PAUSE = "pause";

    private static final double MIB = 1 << 20;
    private static final double MS = 1000;
    private static final double MAX_SHIFT_S = 5;
    private static final double BAR = 0.32;
    private static final int ROW_HEIGHT = 22;
    private static final int FRAME_HEIGHT = 64;
    private static final int BYTES_HEIGHT = 420;
    private static final int RANKS_HEIGHT = 260;
    private static final int BYTES_WEIGHT = 3;
    /** Maximum number of bars. The table has the others, too. */
    private static final int MAX_BARS = 40;

    private static final List<SampledValue> LINES = List.of(
            SampledValue.WRITTEN, SampledValue.SENT, SampledValue.ARRIVED, SampledValue.READ, SampledValue.STAGED);

    private final MigrationHistory migration;
    private final Optional<MigrationSamples> samples;
    private final long beganMs;
    private final double endS;
    private final List<MigrationHistory.Step> pauses;

    MigrationCharts(MigrationHistory migration, Optional<MigrationSamples> samples) {
        this.migration = migration;
        this.samples = samples;
        // The first step may have begun before the first record was written.
        beganMs = migration.steps().stream()
                .mapToLong(MigrationHistory.Step::startEpochMs)
                .reduce(migration.startedEpochMs(), Math::min);
        long endMs = migration.endedEpochMs();
        for (MigrationHistory.Step step : migration.steps()) {
            endMs = Math.max(endMs, step.startEpochMs() + step.durationMs());
        }
        if (samples.isPresent() && !samples.get().timesMs().isEmpty()) {
            List<Long> timesMs = samples.get().timesMs();
            endMs = Math.max(endMs, samples.get().startEpochMs() + timesMs.get(timesMs.size() - 1));
        }
        this.endS = Math.max(0.001, seconds(endMs));
        this.pauses = migration.steps().stream()
                .filter(step -> step.name().equals(PAUSE))
                .toList();
    }

    private MigrationCharts(
            MigrationHistory migration,
            Optional<MigrationSamples> samples,
            long beganMs,
            double endS,
            List<MigrationHistory.Step> pauses) {
        this.migration = migration;
        this.samples = samples;
        this.beganMs = beganMs;
        this.endS = endS;
        this.pauses = pauses;
    }

    /**
     * Makes the charts of the other end of this migration. They have the times and the pauses of this end, except if
     * the clocks of the nodes differ by so much that the curves would not lie in them.
     */
    MigrationCharts ofOtherEnd(MigrationHistory end, Optional<MigrationSamples> endSamples) {
        MigrationCharts own = new MigrationCharts(end, endSamples);
        double fromS = seconds(own.beganMs);
        boolean agrees = fromS >= -MAX_SHIFT_S && seconds(own.beganMs) + own.endS <= endS + MAX_SHIFT_S;
        return agrees ? new MigrationCharts(end, endSamples, beganMs, Math.max(endS, fromS + own.endS), pauses) : own;
    }

    /** Returns the time at which the charts begin. */
    long beganMs() {
        return beganMs;
    }

    private double seconds(long epochMs) {
        return (epochMs - beganMs) / MS;
    }

    /** Returns the steps that the chart of steps draws. */
    List<MigrationHistory.Step> bars() {
        return migration.steps().stream().limit(MAX_BARS).toList();
    }

    /** Draws the steps as bars over time. */
    String steps(ChartTheme theme, boolean isNarrow) throws IOException {
        List<MigrationHistory.Step> bars = bars();
        int height = FRAME_HEIGHT + ROW_HEIGHT * bars.size();
        SvgCanvas canvas = canvas(theme, isNarrow, height);
        String[] names = new String[bars.size()];
        XYIntervalSeriesCollection data = new XYIntervalSeriesCollection();
        XYIntervalSeries steps = new XYIntervalSeries("steps");
        XYIntervalSeries pauses = new XYIntervalSeries(PAUSE);
        for (int i = 0; i < names.length; i++) {
            MigrationHistory.Step step = bars.get(i);
            names[i] = label(step, isNarrow);
            double fromS = seconds(step.startEpochMs());
            double toS = fromS + step.durationMs() / MS;
            // A step of less than a pixel would not be seen.
            double shownS = Math.max(toS, fromS + endS / canvas.size().width());
            (step.name().equals(PAUSE) ? pauses : steps).add(i, i - BAR, i + BAR, fromS, fromS, shownS);
        }
        data.addSeries(steps);
        data.addSeries(pauses);
        SymbolAxis rows = new SymbolAxis(null, names);
        canvas.styled(rows);
        rows.setInverted(true);
        rows.setGridBandsVisible(false);
        rows.setRange(-0.5, names.length - 0.5);
        XYBarRenderer bar = new XYBarRenderer();
        bar.setUseYInterval(true);
        bar.setShadowVisible(false);
        bar.setBarPainter(new StandardXYBarPainter());
        bar.setDrawBarOutline(false);
        bar.setSeriesPaint(0, theme.series(0));
        bar.setSeriesPaint(1, theme.series(1));
        XYPlot plot = new XYPlot(data, rows, canvas.axis("seconds", endS, true), bar);
        plot.setOrientation(PlotOrientation.HORIZONTAL);
        canvas.styled(plot);
        plot.setDomainGridlinesVisible(false);
        pauseMarks(theme, canvas.font()).forEach(mark -> plot.addRangeMarker(mark, Layer.BACKGROUND));
        plot.setFixedDomainAxisSpace(canvas.space());
        plot.setFixedRangeAxisSpace(canvas.space());
        return canvas.draw("Steps over time", plot, 0);
    }

    private static String label(MigrationHistory.Step step, boolean isNarrow) {
        String name = step.name().replace('_', ' ') + (step.rank() < 0 ? "" : " " + step.rank());
        int most = isNarrow ? 11 : 14;
        return name.length() <= most ? name : name.substring(0, most - 1) + "\u2026";
    }

    private List<Marker> pauseMarks(ChartTheme theme, Font font) {
        List<Marker> marks = new ArrayList<>();
        for (MigrationHistory.Step step : pauses) {
            double fromS = seconds(step.startEpochMs());
            IntervalMarker mark = new IntervalMarker(fromS, fromS + step.durationMs() / MS);
            mark.setPaint(theme.mark());
            mark.setAlpha(1);
            mark.setLabelFont(font);
            marks.add(mark);
        }
        return marks;
    }

    /** Draws the bytes of the whole job over time, and the used part of the pool below them. */
    String bytes(ChartTheme theme, boolean isNarrow) throws IOException {
        SvgCanvas canvas = canvas(theme, isNarrow, BYTES_HEIGHT);
        XYSeriesCollection lines = new XYSeriesCollection();
        XYLineAndShapeRenderer renderer = new XYLineAndShapeRenderer(true, false);
        double most = 0;
        for (int i = 0; i < LINES.size(); i++) {
            Optional<SampleCurve> curve = curve(LINES.get(i), SampleCurve.JOB);
            if (curve.isPresent()) {
                renderer.setSeriesPaint(lines.getSeriesCount(), theme.series(i));
                renderer.setSeriesStroke(lines.getSeriesCount(), ChartTheme.line(i));
                lines.addSeries(series(name(LINES.get(i)), curve.get()));
                most = Math.max(most, most(curve.get()));
            }
        }
        NumberAxis time = canvas.axis("seconds", endS, true);
        CombinedDomainXYPlot both = new CombinedDomainXYPlot(time);
        both.setGap(10);
        XYPlot bytes = new XYPlot(lines, null, canvas.axis("MiB", most, false), renderer);
        addPart(both, bytes, canvas, BYTES_WEIGHT);
        curve(SampledValue.POOL, SampleCurve.JOB).ifPresent(curve -> {
            XYLineAndShapeRenderer line = new XYLineAndShapeRenderer(true, false);
            line.setSeriesPaint(0, theme.series(LINES.size()));
            line.setSeriesStroke(0, ChartTheme.line(0));
            XYPlot pool = new XYPlot(
                    new XYSeriesCollection(series("pool in use", curve)),
                    null,
                    canvas.axis("pool MiB", most(curve), false),
                    line);
            addPart(both, pool, canvas, 1);
        });
        both.setFixedDomainAxisSpace(canvas.space());
        both.setFixedRangeAxisSpace(canvas.space());
        return canvas.draw("Bytes over time", both, isNarrow ? 2 : 1);
    }

    private void addPart(CombinedDomainXYPlot whole, XYPlot part, SvgCanvas canvas, int weight) {
        canvas.styled(part);
        AxisSpace space = new AxisSpace();
        space.setLeft(canvas.size().left());
        part.setFixedRangeAxisSpace(space);
        pauseMarks(canvas.theme(), canvas.font()).forEach(mark -> part.addDomainMarker(mark, Layer.BACKGROUND));
        whole.add(part, weight);
    }

    /** Returns the values of which there are curves of single ranks. */
    List<SampledValue> rankValues() {
        return LINES.stream()
                .filter(value -> samples.stream()
                        .flatMap(all -> all.curves().stream())
                        .anyMatch(curve -> curve.value() == value && curve.rank() > 0))
                .toList();
    }

    /** Draws a value of each rank over time. Ranks without a curve of their own are one band. */
    String ranks(SampledValue value, ChartTheme theme, boolean isNarrow) throws IOException {
        SvgCanvas canvas = canvas(theme, isNarrow, RANKS_HEIGHT);
        XYIntervalSeriesCollection data = new XYIntervalSeriesCollection();
        DeviationRenderer renderer = new DeviationRenderer(true, false);
        renderer.setLegendItemLabelGenerator(new StandardXYSeriesLabelGenerator("{0}"));
        double most = 0;
        List<SampleCurve> curves = samples.orElseThrow().curves().stream()
                .filter(curve -> curve.value() == value && curve.rank() != SampleCurve.JOB)
                .toList();
        for (SampleCurve curve : curves) {
            most = Math.max(most, most(curve));
            if (curve.rank() == SampleCurve.LEAST_OF_OTHERS) {
                curve(value, SampleCurve.MOST_OF_OTHERS).ifPresent(upper -> {
                    Color color = theme.series(LINES.size());
                    renderer.setSeriesFillPaint(data.getSeriesCount(), color);
                    renderer.setSeriesPaint(data.getSeriesCount(), color);
                    renderer.setSeriesStroke(data.getSeriesCount(), new BasicStroke(1));
                    data.addSeries(band("all other ranks", curve, upper));
                });
            } else if (curve.rank() >= 0) {
                renderer.setSeriesPaint(data.getSeriesCount(), theme.series(curve.rank()));
                renderer.setSeriesFillPaint(data.getSeriesCount(), theme.series(curve.rank()));
                renderer.setSeriesStroke(data.getSeriesCount(), ChartTheme.line(curve.rank()));
                data.addSeries(band("rank " + curve.rank(), curve, curve));
            }
        }
        renderer.setAlpha(0.25f);
        XYPlot plot = new XYPlot(data, canvas.axis("seconds", endS, true), canvas.axis("MiB", most, false), renderer);
        canvas.styled(plot);
        pauseMarks(theme, canvas.font()).forEach(mark -> plot.addDomainMarker(mark, Layer.BACKGROUND));
        plot.setFixedDomainAxisSpace(canvas.space());
        plot.setFixedRangeAxisSpace(canvas.space());
        int perRow = isNarrow ? 4 : 9;
        return canvas.draw("Bytes " + name(value) + " of each rank", plot, (data.getSeriesCount() + perRow) / perRow);
    }

    private SvgCanvas canvas(ChartTheme theme, boolean isNarrow, int height) {
        return new SvgCanvas(isNarrow ? ChartSize.narrow(height) : ChartSize.wide(height), theme);
    }

    private Optional<SampleCurve> curve(SampledValue value, int rank) {
        return samples.flatMap(all -> all.curve(value, rank));
    }

    private XYSeries series(String name, SampleCurve curve) {
        XYSeries series = new XYSeries(name, false, true);
        for (int i = 0; i < curve.bytes().size(); i++) {
            series.add(timeS(i), curve.bytes().get(i) / MIB, false);
        }
        return series;
    }

    private XYIntervalSeries band(String name, SampleCurve lower, SampleCurve upper) {
        XYIntervalSeries series = new XYIntervalSeries(name, false, true);
        for (int i = 0; i < lower.bytes().size(); i++) {
            double low = lower.bytes().get(i) / MIB;
            double high = upper.bytes().get(i) / MIB;
            series.add(timeS(i), timeS(i), timeS(i), (low + high) / 2, low, high);
        }
        return series;
    }

    private double timeS(int point) {
        MigrationSamples all = samples.orElseThrow();
        return seconds(all.startEpochMs() + all.timesMs().get(point));
    }

    private static double most(SampleCurve curve) {
        return curve.bytes().stream().mapToLong(Long::longValue).max().orElse(0) / MIB;
    }

    /** The word for a value in charts and tables. */
    static String name(SampledValue value) {
        return switch (value) {
            case WRITTEN -> "written";
            case SENT -> "sent";
            case ARRIVED -> "arrived";
            case READ -> "read";
            case STAGED -> "staged";
            case POOL -> "pool in use";
        };
    }
}
