package io.ppmr.bench.report;

import io.ppmr.cli.BuildVersion;
import io.ppmr.cli.report.ChartSize;
import io.ppmr.cli.report.ChartTheme;
import io.ppmr.cli.report.HtmlPage;
import io.ppmr.cli.report.HtmlPage.ChartVariants;
import io.ppmr.cli.report.HtmlPage.Column;
import io.ppmr.cli.report.HtmlPage.ColumnKind;
import io.ppmr.cli.report.SvgCanvas;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code bench report}: draws results of {@code --json} as the figures 7, 8, 9 and 11 of paper 1. */
@Command(
        name = "report",
        description = "draws the results of --json as the paper's figures 7 to 9 and 11, in one HTML file",
        mixinStandardHelpOptions = true)
public final class FigureCommand implements Callable<Integer> {
    private static final String SECOND = " (second set)";
    /** Characters of a line below a figure. */
    private static final int NOTE_WIDTH = 110;

    @Spec
    private CommandSpec spec;

    @Parameters(
            paramLabel = "FILE",
            arity = "1..*",
            description = "results of sweep, migration, multiplex, and of stages, whose limits are drawn as lines")
    private List<Path> files;

    @Option(
            names = {"-o", "--output"},
            required = true,
            paramLabel = "FILE",
            description = "the HTML file to write")
    private Path output;

    @Option(names = "--against", split = ",", paramLabel = "FILE", description = "a second set, drawn beside the first")
    private List<Path> against = new ArrayList<>();

    @Option(names = "--svg", paramLabel = "DIR", description = "write each figure as an SVG file, too")
    private Path folder;

    @Override
    public Integer call() throws IOException {
        ResultSet first = ResultSet.read(files);
        ResultSet second = ResultSet.read(against);
        Map<String, PaperFigure> figures = first.figures();
        second.figures()
                .forEach((key, figure) -> figures.computeIfPresent(key, (same, own) -> own.beside(figure, SECOND)));
        if (figures.isEmpty()) {
            throw new IOException("no figure can be drawn from these results. Remedy: name results of sweep, migration"
                    + " or multiplex");
        }
        SvgCanvas.requireFonts();
        Files.writeString(output, html(figures, first, second));
        spec.commandLine().getOut().println(figures.size() + " figures: " + output);
        if (folder != null) {
            Files.createDirectories(folder);
            List<String> notes = notes(first, second);
            for (PaperFigure figure : figures.values()) {
                Files.writeString(
                        folder.resolve(figure.key() + ".svg"),
                        FigureChart.draw(figure, ChartTheme.LIGHT, ChartSize.wide(FigureChart.HEIGHT), notes));
            }
        }
        return 0;
    }

    /** The machines and the builds, in lines that fit below a figure. */
    private static List<String> notes(ResultSet first, ResultSet second) {
        List<String> machines = new ArrayList<>(first.machines());
        second.machines().forEach(machine -> machines.add(machine + SECOND));
        List<String> lines = new ArrayList<>();
        for (String machine : machines) {
            StringBuilder line = new StringBuilder();
            for (String word : machine.split(" ", -1)) {
                if (line.length() + word.length() > NOTE_WIDTH) {
                    lines.add(line.toString());
                    line.setLength(0);
                }
                line.append(line.isEmpty() ? "" : " ").append(word);
            }
            lines.add(line.toString());
        }
        return lines;
    }

    private static String html(Map<String, PaperFigure> figures, ResultSet first, ResultSet second) throws IOException {
        HtmlPage page = new HtmlPage("ppmr: benchmarks");
        page.heading(1, "Benchmarks");
        List<List<String>> facts = new ArrayList<>();
        first.machines().forEach(machine -> facts.add(List.of("Machine and build", machine)));
        second.machines().forEach(machine -> facts.add(List.of("Machine and build" + SECOND, machine)));
        page.facts(facts);
        page.paragraph("note", "Points are medians, bars are the spread of the runs. Dashed lines are the limits.");
        for (PaperFigure figure : figures.values()) {
            page.heading(2, figure.title());
            page.chart(
                    new ChartVariants(
                            FigureChart.draw(figure, ChartTheme.LIGHT, ChartSize.wide(FigureChart.HEIGHT), List.of()),
                            FigureChart.draw(figure, ChartTheme.DARK, ChartSize.wide(FigureChart.HEIGHT), List.of()),
                            "",
                            ""),
                    figure.title() + ". The table below has the same figures.",
                    figure.title() + ", in " + figure.unit() + ", by " + figure.axis() + ".");
            page.table(figure.title(), columns(figure), rows(figure));
        }
        page.text(
                page.child(page.main(), "footer"), "Made by ppmr " + BuildVersion.version() + ": ./ppmr bench report");
        return page.write();
    }

    private static List<Column> columns(PaperFigure figure) {
        List<Column> columns = new ArrayList<>(List.of(new Column("Series", ColumnKind.TEXT)));
        figure.places().forEach(place -> columns.add(new Column(place, ColumnKind.NUMBER)));
        return columns;
    }

    private static List<List<String>> rows(PaperFigure figure) {
        List<List<String>> rows = new ArrayList<>();
        figure.series().forEach(series -> {
            List<String> row = new ArrayList<>(List.of(series.name()));
            figure.places()
                    .forEach(place -> row.add(series.at(place)
                            .map(value -> String.format(
                                    Locale.ROOT, "%.2f (%.2f to %.2f)", value.median(), value.least(), value.most()))
                            .orElse("")));
            rows.add(row);
        });
        figure.limits().forEach((name, value) -> {
            List<String> row = new ArrayList<>(List.of(name));
            figure.places().forEach(place -> row.add(String.format(Locale.ROOT, "%.2f", value)));
            rows.add(row);
        });
        return rows;
    }
}
