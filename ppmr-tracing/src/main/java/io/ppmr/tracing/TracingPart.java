package io.ppmr.tracing;

import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/** The part of the services for traces: each migration is one trace over its nodes. */
public final class TracingPart implements ServicePart {
    private static final String OTLP = "otlp";

    @Section(
            name = "tracing",
            doc = "[Traces](../admin/monitoring.md#traces) of migrations, sent to a collector of OpenTelemetry when a"
                    + " migration is over.")
    private record Keys(
            @Key(
                    doc = "the collector's address, http://HOST:PORT or https://HOST:PORT. Default: traces are off",
                    example = "http://collector:4318")
            Optional<String> otlp) {}

    @Override
    public String name() {
        return "tracing";
    }

    @Override
    public List<Class<? extends Record>> sections(Side side) {
        return List.of(Keys.class);
    }

    @Override
    public Configured read(ConfigFile file, Side side, Tools tools) {
        ConfigFile.FileSection<Keys> section = file.section(Keys.class);
        Optional<String> otlp = section.values().otlp();
        otlp.flatMap(TracingPart::whyNoAddress).ifPresent(why -> section.bad(OTLP, why));
        return new Traces(otlp);
    }

    private static Optional<String> whyNoAddress(String text) {
        try {
            URI address = new URI(text);
            boolean isHttp = "http".equals(address.getScheme()) || "https".equals(address.getScheme());
            boolean isBare =
                    (address.getRawPath() == null || address.getRawPath().isEmpty())
                            && address.getRawQuery() == null
                            && address.getRawFragment() == null
                            && address.getRawUserInfo() == null;
            return isHttp && isBare && address.getHost() != null
                    ? Optional.empty()
                    : Optional.of("'" + text + "' must be http://HOST:PORT or https://HOST:PORT");
        } catch (URISyntaxException e) {
            return Optional.of("'" + text + "' is not an address: " + e.getReason());
        }
    }

    @Override
    public void describe(MeterRegistry meters, String role) {
        if (Arrays.stream(Side.values())
                .anyMatch(side -> role.equals(side.name().toLowerCase(Locale.ROOT)))) {
            new TraceMeters(meters);
        }
    }

    /**
     * The traces of a configuration file.
     *
     * @param otlp the address of the collector, or empty if traces are off
     */
    private record Traces(Optional<String> otlp) implements Configured {
        @Override
        public Running open(Node node) {
            return otlp.<Running>map(address -> new MigrationTracer(address, new TraceMeters(node.meters())))
                    .orElseGet(() -> new Running() {});
        }
    }
}
