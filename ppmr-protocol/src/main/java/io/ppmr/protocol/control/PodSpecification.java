package io.ppmr.protocol.control;

import java.util.List;

/**
 * Specifies a pod as its user ordered it: the same in the order, in the node's record, in the facts for another node
 * and in the status. Immutable.
 *
 * @param name the name that its user gave it
 * @param job the job that it belongs to; pods of one job move together; a pod without a job is one by its own name
 * @param template the {@code [pods.NAME]} of the configuration that grants it; null in an order that leaves the choice
 *     to the service
 * @param environment the variables of its commands, each NAME=VALUE
 * @param command the program and its arguments
 * @param members the number of pods of the job on all nodes, or 0 for a job that is not over several nodes
 * @param checkpointEvery the interval of the job's checkpoints, in the form of {@link CheckpointInterval}; "" for none
 */
public record PodSpecification(
        String name,
        String job,
        String template,
        List<String> environment,
        List<String> command,
        int members,
        String checkpointEvery) {
    /** Specifies a pod of a job that is not over several nodes. */
    public PodSpecification(String name, String job, String template, List<String> environment, List<String> command) {
        this(name, job, template, environment, command, 0, "");
    }

    public PodSpecification {
        job = job == null ? name : job;
        environment = texts(environment);
        command = texts(command);
        checkpointEvery = checkpointEvery == null ? "" : checkpointEvery;
    }

    /** Accepts a list that a client sent: without it the list is empty, and an entry that is no text becomes one. */
    private static List<String> texts(List<?> words) {
        return words == null ? List.of() : words.stream().map(String::valueOf).toList();
    }

    /** Returns the same pod with the template and the environment that the service chose for it. */
    public PodSpecification granted(String byTemplate, List<String> variables) {
        return new PodSpecification(name, job, byTemplate, variables, command, members, checkpointEvery);
    }

    /** Returns the same pod without its environment, which may hold secrets. */
    public PodSpecification withoutEnvironment() {
        return granted(template, List.of());
    }
}
