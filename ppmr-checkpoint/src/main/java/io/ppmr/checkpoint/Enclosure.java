package io.ppmr.checkpoint;

import java.util.List;

/**
 * Describes how a pod is checkpointed or restored. Its root is the first process of a PID namespace. The pods' part
 * makes its network and mounts, and passes them to the tool. Immutable.
 *
 * @param before words before the tool's, which put it in its place and open its inherited descriptors
 * @param arguments further arguments of the tool
 */
public record Enclosure(List<String> before, List<String> arguments) {
    public Enclosure {
        before = List.copyOf(before);
        arguments = List.copyOf(arguments);
    }
}
