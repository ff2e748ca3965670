package io.ppmr.cli.report;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Stroke;
import java.util.List;

/**
 * The colors and lines of charts. Neighbours differ in their dashes, too, for people who see no colors. Immutable.
 *
 * @param mark the color behind a marked time
 * @param colors the colors of series, as RGB
 */
public record ChartTheme(Color background, Color text, Color grid, Color mark, List<Integer> colors) {
    /** For white pages, and for print. */
    public static final ChartTheme LIGHT = new ChartTheme(
            new Color(0xffffff),
            new Color(0x1f2328),
            new Color(0xd0d7de),
            new Color(0xfff1cc),
            List.of(0x0550ae, 0xbc4c00, 0x116329, 0x8250df, 0xa40e26, 0x57606a));
    /** For dark pages. */
    public static final ChartTheme DARK = new ChartTheme(
            new Color(0x0d1117),
            new Color(0xe6edf3),
            new Color(0x30363d),
            new Color(0x3d3310),
            List.of(0x79c0ff, 0xffa657, 0x7ee787, 0xd2a8ff, 0xff9492, 0xb1bac4));

    private static final float WIDTH = 1.6f;
    private static final List<List<Float>> DASHES =
            List.of(List.of(), List.of(7f, 3f), List.of(2f, 2f), List.of(9f, 3f, 2f, 3f));

    public ChartTheme {
        colors = List.copyOf(colors);
    }

    /** Returns the color of a series by its number. Numbers beyond the last color begin again. */
    public Color series(int number) {
        return new Color(colors.get(number % colors.size()));
    }

    /** Returns the line of a series by its number. */
    public static Stroke line(int number) {
        List<Float> dashes = DASHES.get(number % DASHES.size());
        if (dashes.isEmpty()) {
            return new BasicStroke(WIDTH);
        }
        float[] lengths = new float[dashes.size()];
        for (int i = 0; i < lengths.length; i++) {
            lengths[i] = dashes.get(i);
        }
        return new BasicStroke(WIDTH, BasicStroke.CAP_BUTT, BasicStroke.JOIN_ROUND, 1, lengths, 0);
    }
}
