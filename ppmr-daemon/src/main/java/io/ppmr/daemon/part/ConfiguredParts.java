package io.ppmr.daemon.part;

import io.ppmr.protocol.control.Finding;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * All parts as a file configures them. Immutable.
 *
 * @param byName in the order of their names
 */
public record ConfiguredParts(Map<String, ServicePart.Configured> byName) {
    /** Returns true if users may ask the service for something of their own. */
    public boolean isForUsers() {
        return byName.values().stream().anyMatch(ServicePart.Configured::isForUsers);
    }

    /** Returns true if a trigger that names no job moves the jobs of a part. */
    public boolean takesJobs() {
        return byName.values().stream().anyMatch(ServicePart.Configured::takesJobs);
    }

    /** Returns the commands that root runs, by what names them in the file. */
    public Map<String, List<String>> rootsCommands() {
        Map<String, List<String>> all = new LinkedHashMap<>();
        byName.values().forEach(part -> all.putAll(part.rootsCommands()));
        return all;
    }

    /** Checks the node, for {@code ppmr doctor}: by the names of those parts that found something. */
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

    /** Makes the parts of one service, in which nothing runs yet. */
    public RunningParts open(ServicePart.Node node) {
        // Where users' jobs have the same name, those that a trigger moves are meant.
        return new RunningParts(
                byName.values().stream()
                        .sorted(Comparator.comparing(part -> !part.takesJobs()))
                        .map(part -> part.open(node))
                        .toList(),
                takesJobs());
    }
}
