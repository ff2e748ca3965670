package io.ppmr.cli.report;

/**
 * The size of a chart in pixels.
 *
 * @param left room for the names at the left axis, fixed so that a chart does not depend on the fonts of the machine
 *     that draws it
 */
public record ChartSize(int width, int height, int left) {
    /** For wide windows, and for files. */
    public static ChartSize wide(int height) {
        return new ChartSize(900, height, 92);
    }

    /** For narrow windows. */
    public static ChartSize narrow(int height) {
        return new ChartSize(368, height, 78);
    }

    /** Returns whether there is little room for names and numbers. */
    boolean isNarrow() {
        return width < 600;
    }
}
