package io.ppmr.cli;

import java.time.Duration;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads a time with its unit, as configuration files have it. A number without a unit means seconds. */
public final class DurationConverter implements ITypeConverter<Duration> {
    private static final Pattern FORM = Pattern.compile("(\\d{1,12})(ms|s|m|min|h|)");
    private static final Map<String, Long> MILLIS =
            Map.of("ms", 1L, "s", 1000L, "", 1000L, "m", 60_000L, "min", 60_000L, "h", 3_600_000L);

    @Override
    public Duration convert(String text) {
        Matcher form = FORM.matcher(text);
        if (!form.matches()) {
            throw new TypeConversionException(
                    "'" + text + "' is not a time. Write a number with its unit, such as 30s, 10m or 2h");
        }
        return Duration.ofMillis(Math.multiplyExact(Long.parseLong(form.group(1)), MILLIS.get(form.group(2))));
    }
}
