package io.ppmr.cli.metrics;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Optional;

/** Where a service counts, and the endpoint that shows it where one is configured. Closed by its owner. */
public final class ServiceMeters implements AutoCloseable {
    private final MeterRegistry registry;
    private final Optional<MetricsEndpoint> endpoint;

    /** Opens the endpoint, if there is to be one. */
    public ServiceMeters(Optional<InetSocketAddress> address) throws IOException {
        if (address.isPresent()) {
            PrometheusMeterRegistry shown = MetricsEndpoint.registry();
            registry = shown;
            endpoint = Optional.of(new MetricsEndpoint(address.get(), shown));
        } else {
            registry = new SimpleMeterRegistry();
            endpoint = Optional.empty();
        }
    }

    /** What the service registers its meters at. */
    public MeterRegistry registry() {
        return registry;
    }

    @Override
    public void close() {
        endpoint.ifPresent(MetricsEndpoint::close);
        registry.close();
    }
}
