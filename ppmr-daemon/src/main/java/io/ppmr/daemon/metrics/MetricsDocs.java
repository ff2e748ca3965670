package io.ppmr.daemon.metrics;

import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.Tag;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusNamingConvention;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.migration.source.SourceMetrics;
import io.ppmr.migration.target.TargetMetrics;
import io.ppmr.transport.RailFigures;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The page of all meters, {@code docs/reference/metrics.md}, made of the meters that the services register. A test
 * fails if the page is stale.
 */
public final class MetricsDocs {
    private static final int CHUNK_BYTES = 16 << 10;
    private static final int CHUNKS = 8;
    private static final String INTRODUCTION = """
            # Metrics

            <!-- Made by: ./ppmr metrics > docs/reference/metrics.md.
            Change the meters in the code, not this page. -->

            With `port` in `[metrics]` of its [configuration](configuration.md) a service shows its meters.
            They are at `http://127.0.0.1:PORT/metrics`, in Prometheus' text format.
            Without it there is no endpoint, and no thread for one.
            It is on loopback unless `address` is set; every user who can reach it can read it.
            A scrape of both services passes `promtool check metrics` in the tests.

            A histogram is shown as NAME`_bucket`, NAME`_count` and NAME`_sum`.
            A summary is shown as NAME`_count` and NAME`_sum`.
            Both have the largest value of the last minutes as NAME`_max`.
            What is counted on the way of the bytes is counted as it happens.
            The warm-up at a service's start is not counted.
            """;
    private static final String EVENTS = """

            ## Flight recorder

            The hops are events of the JDK's flight recorder, too:

            - of the source: `ppmr.source.ChunkFlight`, `ppmr.source.PoolWait`, `ppmr.source.SlotWait`
            - of the source's migrations: `ppmr.source.MigrationStep`
            - of the target: `ppmr.target.ChunkReceive`, `ppmr.target.PullWait`, `ppmr.target.ReaderWait`

            An event is written when its hop ends; `took` is the duration of the hop.
            Without a recording no event is made.
            One recording of a migration:

            ```
            jcmd PID JFR.start name=migration settings=profile
            ./ppmr migrate --config FILE
            jcmd PID JFR.dump name=migration filename=/tmp/migration.jfr
            jfr print --events 'ppmr.*' /tmp/migration.jfr
            ```
            """;

    private MetricsDocs() {}

    /** Returns the whole page. */
    public static String page() {
        BufferPool pool = new BufferPool(PoolGeometry.of((long) CHUNK_BYTES * CHUNKS, CHUNK_BYTES));
        StringBuilder page = new StringBuilder(INTRODUCTION);
        PrometheusMeterRegistry source = MetricsEndpoint.registry();
        PrometheusMeterRegistry target = MetricsEndpoint.registry();
        new SourceMetrics(source, pool, new FairClaims(pool));
        SourceMetrics.showRails(source, List.of(new RailFigures("NAME of each")));
        new TargetMetrics(target, List.of(pool));
        InstalledParts.describe(source, "source");
        InstalledParts.describe(target, "target");
        table(page, "source", source);
        table(page, "target", target);
        for (ConfigRole role : InstalledParts.roles()) {
            PrometheusMeterRegistry further = MetricsEndpoint.registry();
            InstalledParts.describe(further, role.word());
            table(page, role.word(), further);
        }
        return page.append(EVENTS).toString();
    }

    private static void table(StringBuilder page, String role, PrometheusMeterRegistry registry) {
        page.append("\n## The ").append(role).append("'s\n\n| Name | Kind | Labels | Meaning |\n|---|---|---|---|\n");
        Map<String, Meter> byName = new TreeMap<>();
        Map<String, Map<String, Set<String>>> labels = new TreeMap<>();
        for (Meter meter : registry.getMeters()) {
            String name = prometheusName(meter);
            byName.put(name, meter);
            for (Tag tag : meter.getId().getTags()) {
                labels.computeIfAbsent(name, unused -> new TreeMap<>())
                        .computeIfAbsent(tag.getKey(), unused -> new TreeSet<>())
                        .add(tag.getValue());
            }
        }
        byName.forEach((name, meter) -> page.append(String.format(
                "| `%s` | %s | %s | %s |%n",
                name,
                kind(meter),
                labels(labels.getOrDefault(name, Map.of())),
                meter.getId().getDescription())));
    }

    private static String labels(Map<String, Set<String>> labels) {
        StringBuilder text = new StringBuilder();
        labels.forEach(
                (label, values) -> text.append('`').append(label).append("`: ").append(String.join(", ", values)));
        return text.length() == 0 ? "-" : text.toString();
    }

    private static String kind(Meter meter) {
        return switch (meter.getId().getType()) {
            case COUNTER -> "counter";
            case GAUGE -> "gauge";
            case TIMER -> meter.getId().getName().endsWith(".migration") ? "summary" : "histogram";
            default -> throw new IllegalStateException("a meter of an unknown kind: " + meter.getId());
        };
    }

    /** Returns the name that {@code PrometheusNamingConvention} makes. */
    private static String prometheusName(Meter meter) {
        String name = meter.getId().getConventionName(new PrometheusNamingConvention());
        return meter.getId().getType() == Meter.Type.COUNTER && !name.endsWith("_total") ? name + "_total" : name;
    }
}
