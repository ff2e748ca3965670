package io.ppmr.checkpoint;

/**
 * What a tool's restart takes from the node, besides its image. Immutable.
 *
 * @param sameFiles whether programs and libraries are mapped again by name, and must be the same files
 * @param freePids whether the processes get their old PIDs beside the node's other processes
 */
public record RestartNeeds(boolean sameFiles, boolean freePids) {
    /** Of a tool of which nothing is known. */
    public static final RestartNeeds UNKNOWN = new RestartNeeds(false, false);
}
