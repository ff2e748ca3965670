package io.ppmr.daemon.part;

import io.ppmr.migration.source.SpareNodes;
import io.ppmr.protocol.control.Finding;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The configuration of all parts. It is immutable.
 *
 * @param byName the parts, in the order of their names
 */
public record ConfiguredParts(Map<String, ServicePart.Configured> byName) {
    /** Returns true if a part has requests for users without rights at the service. */
    public boolean isForUsers() {
        return byName.values().stream().anyMatch(ServicePart.Configured::isForUsers);
    }

    /** Returns true if a trigger that names no job moves the jobs of a part. */
    public boolean takesJobs() {
        return byName.values().stream().anyMatch(ServicePart.Configured::takesJobs);
    }

    /** Returns the commands that root runs, by their keys in the file. */
    public Map<String, List<String>> rootsCommands() {
        Map<String, List<String>> all = new LinkedHashMap<>();
        byName.values().forEach(part -> all.putAll(part.rootsCommands()));
        return all;
    }

    /** Checks the node, for {@code ppmr doctor}: returns findings by the names of the parts. */
    public Map<String, List<Finding>> findings(PeerAuthenticator key) {
        Map<String, List<Finding>> all = new LinkedHashMap<>();
        byName.forEach((name, part) -> {
            List<Finding> found = part.findings(key);
            if (!found.isEmpty()) {
                all.put(name, found);
            }
        });
        return all;
    }

    /** Returns what finds spare nodes for jobs, of the first part that does. */
    public Optional<SpareNodes.SpareFinder> spares(PeerAuthenticator key) {
        return byName.values().stream()
                .map(part -> part.spares(key))
                .flatMap(Optional::stream)
                .findFirst();
    }

    /** Creates the parts of one service, not started yet. */
    public RunningParts open(ServicePart.Node node) {
        // If users' jobs have the same name, those that a trigger moves win.
        return new RunningParts(
                byName.values().stream()
                        .sorted(Comparator.comparing(part -> !part.takesJobs()))
                        .map(part -> part.open(node))
                        .toList(),
                takesJobs());
    }
}
