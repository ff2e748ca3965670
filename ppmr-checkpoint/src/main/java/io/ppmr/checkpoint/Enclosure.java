package io.ppmr.checkpoint;

import java.util.List;

/**
 * Describes how a rank that is a pod is checkpointed or restored: its root is the first process of a PID namespace, and
 * what lies around it, network and mounts, is made by the keeper of the pods and is named to the tool. Immutable.
 *
 * @param before the words that stand before the tool's: they put it where it is to run and open what it is to inherit
 * @param arguments further arguments of the tool
 */
public record Enclosure(List<String> before, List<String> arguments) {
    public Enclosure {
        before = List.copyOf(before);
        arguments = List.copyOf(arguments);
    }
}
