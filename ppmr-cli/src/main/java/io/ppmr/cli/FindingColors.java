package io.ppmr.cli;

import java.io.PrintWriter;
import picocli.CommandLine.Model.CommandSpec;

/** The colors of findings: failures are red and warnings are yellow, if standard output may have colors. */
final class FindingColors {
    private final boolean colored;

    private FindingColors(boolean colored) {
        this.colored = colored;
    }

    static FindingColors of(CommandSpec command) {
        return new FindingColors(OutputOptions.hasColors(command));
    }

    /** Prints a text in the color of a level. */
    void print(PrintWriter out, String level, String text) {
        if (colored && level.equals("fail")) {
            TerminalWriter.printColored(out, TerminalWriter.Color.RED, text);
        } else if (colored && level.equals("warn")) {
            TerminalWriter.printColored(out, TerminalWriter.Color.YELLOW, text);
        } else {
            out.print(text);
        }
    }
}
