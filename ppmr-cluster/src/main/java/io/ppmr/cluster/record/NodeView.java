package io.ppmr.cluster.record;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * A node as {@code ppmr nodes --json} shows it. Immutable.
 *
 * @param host its name
 * @param zone its zone; empty for none
 * @param roles its services: source, target
 * @param state its state, in the words of {@link NodeStatus}
 * @param since the beginning of this state, as ISO-8601 in UTC
 * @param memoryBytes memory that is available to processes
 * @param stagingBytes the staging space for images
 * @param places the migrations that it can receive now
 * @param load the load of one minute for each processor
 * @param release the release of ppmr; "?" if a record could not be read
 * @param findings the number of its checkpointers that cannot be used
 * @param unprobed whether its firewall drops the controller's probe, so that it never is SUSPECT
 */
public record NodeView(
        String host,
        String zone,
        List<String> roles,
        String state,
        String since,
        @JsonProperty("memory_bytes") long memoryBytes,
        @JsonProperty("staging_bytes") long stagingBytes,
        int places,
        double load,
        String release,
        int findings,
        boolean unprobed) {
    public NodeView {
        roles = List.copyOf(roles);
    }
}
