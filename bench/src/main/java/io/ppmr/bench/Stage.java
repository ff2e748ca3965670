package io.ppmr.bench;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One benchmark set up: runs of ours, and of the limit's parts. Closed when measured. */
interface Stage extends AutoCloseable {

    /** The limit's parts, in the order in which they are measured. */
    List<String> parts();

    /** Measures one part of the limit, in MiB/s. */
    double part(String name) throws Exception;

    /** One run of ours. */
    Run run() throws Exception;

    /** What the limit is called. */
    String limitName();

    /** The limit, from its parts' figures of one round, or from their medians. */
    double limit(Map<String, Double> parts);

    /** Further figures for the result, from the parts' medians and ours. */
    default Map<String, Object> details(Map<String, Double> parts, double median) throws Exception {
        return new LinkedHashMap<>(parts);
    }

    @Override
    void close() throws IOException;
}
