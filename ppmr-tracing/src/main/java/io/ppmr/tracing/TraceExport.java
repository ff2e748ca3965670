package io.ppmr.tracing;

import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.IdGenerator;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.SpanProcessor;
import io.opentelemetry.sdk.trace.data.SpanData;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Sends the spans of a migration to a collector, by OpenTelemetry. Both nodes derive the identifiers of the trace and
 * of its spans from the name of the migration, so no message between them has one. It is for one thread.
 */
final class TraceExport {
    private static final Duration LIMIT = Duration.ofSeconds(5);
    private static final int TRACE_BYTES = 16;
    private static final int SPAN_BYTES = 8;

    private final String collector;

    /** @param collector the address of the collector, without a path */
    TraceExport(String collector) {
        this.collector = collector;
    }

    /** Gives the spans their derived identifiers, and gathers those that ended. */
    private static final class Gathered implements IdGenerator, SpanProcessor {
        private final List<SpanData> ended = new ArrayList<>();
        private final String traceId;
        private String nextSpanId = "";

        private Gathered(String traceId) {
            this.traceId = traceId;
        }

        @Override
        public String generateSpanId() {
            return nextSpanId;
        }

        @Override
        public String generateTraceId() {
            return traceId;
        }

        @Override
        public void onStart(Context parent, ReadWriteSpan span) {
            // Only the end of a span counts.
        }

        @Override
        public boolean isStartRequired() {
            return false;
        }

        @Override
        public void onEnd(ReadableSpan span) {
            ended.add(span.toSpanData());
        }

        @Override
        public boolean isEndRequired() {
            return true;
        }
    }

    /**
     * Sends spans.
     *
     * @param service the name of the service
     * @return whether the collector took them within some seconds
     */
    boolean send(String migrationId, String service, String node, List<PlannedSpan> spans) {
        OtlpHttpSpanExporter exporter = OtlpHttpSpanExporter.builder()
                .setEndpoint(collector + "/v1/traces")
                .setTimeout(LIMIT)
                .setConnectTimeout(LIMIT)
                .setRetryPolicy(null)
                .build();
        try {
            return exporter.export(made(migrationId, service, node, spans))
                    .join(2 * LIMIT.toSeconds(), TimeUnit.SECONDS)
                    .isSuccess();
        } finally {
            exporter.shutdown();
        }
    }

    private static List<SpanData> made(String migrationId, String service, String node, List<PlannedSpan> spans) {
        Gathered gathered = new Gathered(traceId(migrationId));
        Resource resource = Resource.create(Attributes.builder()
                .put("service.name", service)
                .put("host.name", node)
                .build());
        try (SdkTracerProvider provider = SdkTracerProvider.builder()
                .setResource(resource)
                .setIdGenerator(gathered)
                .addSpanProcessor(gathered)
                .build()) {
            Tracer tracer = provider.get("io.ppmr");
            for (PlannedSpan planned : spans) {
                gathered.nextSpanId = spanId(migrationId, planned.key());
                add(tracer, migrationId, planned);
            }
        }
        return gathered.ended;
    }

    private static void add(Tracer tracer, String migrationId, PlannedSpan planned) {
        SpanBuilder builder =
                tracer.spanBuilder(planned.name()).setStartTimestamp(planned.startEpochMs(), TimeUnit.MILLISECONDS);
        if (planned.parent().isEmpty()) {
            builder.setNoParent();
        } else {
            builder.setParent(Context.root()
                    .with(Span.wrap(SpanContext.createFromRemoteParent(
                            traceId(migrationId),
                            spanId(migrationId, planned.parent()),
                            TraceFlags.getSampled(),
                            TraceState.getDefault()))));
        }
        Span span = builder.startSpan();
        planned.numbers().forEach(span::setAttribute);
        planned.texts().forEach(span::setAttribute);
        if (!planned.failure().isEmpty()) {
            span.setStatus(StatusCode.ERROR, planned.failure());
        }
        span.end(planned.endEpochMs(), TimeUnit.MILLISECONDS);
    }

    /** Returns the identifier of a migration's trace, which is equal at all nodes. */
    static String traceId(String migrationId) {
        return derived("trace of " + migrationId, TRACE_BYTES);
    }

    /** Returns the identifier of a span of a migration, which is equal at all nodes. */
    static String spanId(String migrationId, String key) {
        return derived("span of " + migrationId + " " + key, SPAN_BYTES);
    }

    private static String derived(String text, int bytes) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(hash, 0, bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("each JDK has SHA-256", e);
        }
    }
}
