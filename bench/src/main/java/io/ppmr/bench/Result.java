package io.ppmr.bench;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * What a benchmark has shown, for {@code --json}.
 *
 * @param median of {@code mibPerSecond} over the runs, as are min and max
 * @param limit null where the benchmark has none
 * @param ratio median by the limit
 * @param details figures beside, in the benchmark's own names
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Result(
        String name,
        Map<String, Object> settings,
        Machine machine,
        List<Run> runs,
        double median,
        double min,
        double max,
        Limit limit,
        Double ratio,
        Map<String, Object> details) {

    static Result of(
            String name,
            Map<String, Object> settings,
            Machine machine,
            List<Run> runs,
            Limit limit,
            Map<String, Object> details) {
        List<Double> figures = runs.stream().map(Run::mibPerSecond).toList();
        return new Result(
                name,
                settings,
                machine,
                runs,
                Figures.median(figures),
                Figures.min(figures),
                Figures.max(figures),
                limit,
                limit == null ? null : limit.ratio(),
                details);
    }

    void write(Path file) throws IOException {
        new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValue(file.toFile(), this);
    }
}
