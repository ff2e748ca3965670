package io.ppmr.bench.report;

import io.ppmr.bench.report.PaperFigure.FigureSeries;
import io.ppmr.cli.report.ChartSize;
import io.ppmr.cli.report.ChartTheme;
import io.ppmr.cli.report.SvgCanvas;
import java.awt.BasicStroke;
import java.awt.Stroke;
import java.io.IOException;
import java.util.List;
import org.jfree.chart.axis.SymbolAxis;
import org.jfree.chart.plot.ValueMarker;
import org.jfree.chart.plot.XYPlot;
import org.jfree.chart.renderer.xy.XYErrorRenderer;
import org.jfree.chart.ui.RectangleAnchor;
import org.jfree.chart.ui.TextAnchor;
import org.jfree.data.xy.XYIntervalSeries;
import org.jfree.data.xy.XYIntervalSeriesCollection;

/** Draws a figure: points joined by lines, with bars for the spread, and dashed lines for the limits. */
final class FigureChart {
    static final int HEIGHT = 360;
    private static final double APART = 0.04;
    private static final int PER_ROW = 4;
    private static final float[] DASHES = {6, 4};
    private static final Stroke LIMIT =
            new BasicStroke(1.2f, BasicStroke.CAP_BUTT, BasicStroke.JOIN_ROUND, 1, DASHES, 0);

    private FigureChart() {}

    /** @param notes lines below the figure */
    static String draw(PaperFigure figure, ChartTheme theme, ChartSize size, List<String> notes) throws IOException {
        SvgCanvas canvas = new SvgCanvas(size, theme);
        XYIntervalSeriesCollection data = new XYIntervalSeriesCollection();
        XYErrorRenderer renderer = new XYErrorRenderer();
        renderer.setDrawXError(false);
        renderer.setDefaultLinesVisible(true);
        int count = figure.series().size();
        for (int i = 0; i < count; i++) {
            FigureSeries series = figure.series().get(i);
            XYIntervalSeries values = new XYIntervalSeries(series.name(), false, true);
            // Bars of series at the same place stand beside each other.
            double shift = APART * (i - (count - 1) / 2.0);
            for (int place = 0; place < figure.places().size(); place++) {
                double x = place + shift;
                series.at(figure.places().get(place))
                        .ifPresent(value -> values.add(x, x, x, value.median(), value.least(), value.most()));
            }
            renderer.setSeriesPaint(i, theme.series(i));
            renderer.setSeriesStroke(i, ChartTheme.line(i));
            data.addSeries(values);
        }
        SymbolAxis places = new SymbolAxis(figure.axis(), figure.places().toArray(String[]::new));
        canvas.styled(places);
        places.setGridBandsVisible(false);
        places.setRange(-0.5, figure.places().size() - 0.5);
        XYPlot plot = new XYPlot(data, places, canvas.axis(figure.unit(), figure.most(), false), renderer);
        canvas.styled(plot);
        figure.limits().forEach((name, value) -> {
            ValueMarker marker = new ValueMarker(value, theme.text(), LIMIT);
            marker.setLabel(name);
            marker.setLabelFont(canvas.font());
            marker.setLabelPaint(theme.text());
            marker.setLabelAnchor(RectangleAnchor.TOP_RIGHT);
            marker.setLabelTextAnchor(TextAnchor.TOP_RIGHT);
            plot.addRangeMarker(marker);
        });
        plot.setFixedDomainAxisSpace(canvas.space());
        plot.setFixedRangeAxisSpace(canvas.space());
        return canvas.draw(figure.title(), plot, (count + PER_ROW - 1) / PER_ROW, notes);
    }
}
