package io.ppmr.cli.report;

import java.awt.Dimension;
import java.awt.Font;
import java.awt.GraphicsEnvironment;
import java.awt.RenderingHints;
import java.awt.geom.Rectangle2D;
import java.io.IOException;
import java.io.StringWriter;
import java.util.List;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import org.apache.batik.svggen.SVGGeneratorContext;
import org.apache.batik.svggen.SVGGraphics2D;
import org.jfree.chart.LegendItemCollection;
import org.jfree.chart.axis.AxisSpace;
import org.jfree.chart.axis.NumberAxis;
import org.jfree.chart.axis.NumberTickUnit;
import org.jfree.chart.axis.ValueAxis;
import org.jfree.chart.block.RectangleConstraint;
import org.jfree.chart.plot.Plot;
import org.jfree.chart.plot.XYPlot;
import org.jfree.chart.title.LegendTitle;
import org.jfree.chart.ui.RectangleInsets;
import org.w3c.dom.Document;
import org.w3c.dom.Element;

/**
 * Draws a plot as SVG. The place of each mark is fixed by the size alone, and depends on no font of this machine. Text
 * stays text. Confined to one thread.
 */
public final class SvgCanvas {
    private static final String SVG = "http://www.w3.org/2000/svg";
    private static final int PRECISION = 1;
    private static final int FONT_SIZE = 12;
    private static final int LEGEND_ROW = 18;
    private static final int NOTE_ROW = 16;
    private static final int BOTTOM = 42;
    private static final int MARGIN = 8;
    private static final int TICKS = 8;
    private static final int NARROW_TICKS = 4;

    private final ChartSize size;
    private final ChartTheme theme;
    private final Font font = new Font(Font.SANS_SERIF, Font.PLAIN, FONT_SIZE);

    /** Creates the canvas of one chart. */
    public SvgCanvas(ChartSize size, ChartTheme theme) {
        this.size = size;
        this.theme = theme;
    }

    /** Fails by name where this JVM has no fonts, as with a minimal one. */
    public static void requireFonts() throws IOException {
        System.setProperty("java.awt.headless", "true");
        try {
            GraphicsEnvironment.getLocalGraphicsEnvironment().getAvailableFontFamilyNames();
        } catch (RuntimeException | LinkageError e) {
            throw new IOException(
                    "this machine has no font to measure text with: " + e + ". Remedy: install fontconfig and"
                            + " fonts-dejavu-core, or copy the journal's folder and make the report on another machine"
                            + " (--journal)",
                    e);
        }
    }

    ChartTheme theme() {
        return theme;
    }

    ChartSize size() {
        return size;
    }

    /** Makes an axis of numbers from 0 with round steps. */
    public NumberAxis axis(String name, double most, boolean isHorizontal) {
        NumberAxis axis = new NumberAxis(name);
        double step = roundStep(most / (size.isNarrow() && isHorizontal ? NARROW_TICKS : TICKS));
        axis.setTickUnit(new NumberTickUnit(step));
        axis.setRange(0, Math.max(step, Math.ceil(most / step) * step));
        styled(axis);
        return axis;
    }

    /** Returns the least of 1, 2 and 5 times a power of ten that is not below a number. */
    private static double roundStep(double least) {
        double power = Math.pow(10, Math.floor(Math.log10(Math.max(least, 1e-9))));
        for (double step : new double[] {1, 2, 5}) {
            if (step * power >= least) {
                return step * power;
            }
        }
        return 10 * power;
    }

    /** Gives an axis the fonts and colors of this canvas. */
    public void styled(ValueAxis axis) {
        axis.setLabelFont(font);
        axis.setTickLabelFont(font);
        axis.setLabelPaint(theme.text());
        axis.setTickLabelPaint(theme.text());
        axis.setAxisLinePaint(theme.grid());
        axis.setTickMarkPaint(theme.grid());
        axis.setLabelInsets(new RectangleInsets(2, 2, 2, 2));
    }

    /** Gives a plot the colors of this canvas. */
    public void styled(XYPlot plot) {
        plot.setBackgroundPaint(theme.background());
        plot.setDomainGridlinePaint(theme.grid());
        plot.setRangeGridlinePaint(theme.grid());
        plot.setOutlinePaint(theme.grid());
        plot.setAxisOffset(RectangleInsets.ZERO_INSETS);
        plot.setInsets(RectangleInsets.ZERO_INSETS);
    }

    /** Returns the font of all texts. */
    public Font font() {
        return font;
    }

    /** Returns the room for the axes of a plot. */
    public AxisSpace space() {
        AxisSpace space = new AxisSpace();
        space.setLeft(size.left());
        space.setBottom(BOTTOM);
        return space;
    }

    /**
     * Draws a plot and its legend.
     *
     * @param title short name of the chart, which is the SVG's title
     * @param legendRows rows that the legend takes
     */
    public String draw(String title, Plot plot, int legendRows) throws IOException {
        return draw(title, plot, legendRows, List.of());
    }

    /**
     * Draws a plot, its legend, and lines below it.
     *
     * @param title short name of the chart, which is the SVG's title
     * @param legendRows rows that the legend takes
     * @param notes the lines, which make the picture higher
     */
    public String draw(String title, Plot plot, int legendRows, List<String> notes) throws IOException {
        int height = size.height() + notes.size() * NOTE_ROW;
        try {
            Document document = DocumentBuilderFactory.newNSInstance()
                    .newDocumentBuilder()
                    .getDOMImplementation()
                    .createDocument(SVG, "svg", null);
            SVGGeneratorContext context = SVGGeneratorContext.createDefault(document);
            context.setComment(null);
            context.setPrecision(PRECISION);
            SVGGraphics2D graphics = new SVGGraphics2D(context, false);
            graphics.setSVGCanvasSize(new Dimension(size.width(), height));
            // Without a value the library cannot restore the hint that the charts change.
            graphics.setRenderingHint(RenderingHints.KEY_STROKE_CONTROL, RenderingHints.VALUE_STROKE_PURE);
            graphics.setPaint(theme.background());
            graphics.fill(new Rectangle2D.Double(0, 0, size.width(), height));
            int top = MARGIN + legendRows * LEGEND_ROW;
            if (legendRows > 0) {
                drawLegend(graphics, plot, legendRows);
            }
            plot.draw(
                    graphics,
                    new Rectangle2D.Double(0, top, size.width() - 2 * MARGIN, size.height() - top - MARGIN / 2.0),
                    null,
                    null,
                    null);
            graphics.setFont(font);
            graphics.setPaint(theme.text());
            for (int i = 0; i < notes.size(); i++) {
                graphics.drawString(notes.get(i), MARGIN, size.height() + i * NOTE_ROW + FONT_SIZE);
            }
            return text(graphics, document, title, height);
        } catch (ParserConfigurationException e) {
            throw new IOException("the JVM's XML parser cannot be used: " + e.getMessage(), e);
        }
    }

    private void drawLegend(SVGGraphics2D graphics, Plot plot, int rows) {
        LegendItemCollection items = plot.getLegendItems();
        if (items.getItemCount() == 0) {
            return;
        }
        LegendTitle legend = new LegendTitle(plot);
        legend.setItemFont(font);
        legend.setItemPaint(theme.text());
        legend.setBackgroundPaint(theme.background());
        double width = size.width() - size.left() - 2.0 * MARGIN;
        legend.arrange(graphics, new RectangleConstraint(width, (double) rows * LEGEND_ROW));
        legend.draw(graphics, new Rectangle2D.Double(size.left(), MARGIN / 2.0, width, (double) rows * LEGEND_ROW));
    }

    private String text(SVGGraphics2D graphics, Document document, String title, int height) throws IOException {
        Element root = graphics.getRoot();
        root.setAttribute("viewBox", "0 0 " + size.width() + " " + height);
        Element name = document.createElementNS(SVG, "title");
        name.setTextContent(title);
        root.insertBefore(name, root.getFirstChild());
        StringWriter text = new StringWriter();
        graphics.stream(root, text, true, false);
        return text.toString();
    }
}
