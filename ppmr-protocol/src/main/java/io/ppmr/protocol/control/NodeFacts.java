package io.ppmr.protocol.control;

import java.util.List;

/**
 * The properties of a node that decide whether a process of one node can continue at another. Collected again for each
 * migration and each {@code ppmr doctor}; immutable.
 *
 * @param hostName as the node calls itself
 * @param architecture of the machine, {@code amd64} or {@code aarch64}
 * @param kernel its release, as uname(2) gives it
 * @param libc the C library with its version
 * @param jdk the version of the Java that the service runs on
 * @param clockEpochMs its clock when the facts were collected
 * @param availableBytes memory that processes can still have, {@code MemAvailable} in proc(5)
 * @param stagingBytes how much of a retained image can wait here, in staging; 0 at a source
 * @param chunkBytes of its pool
 * @param cpuFeatures instructions that programs may use, by the kernel's names in {@code /proc/cpuinfo}
 * @param rdmaPorts its RDMA ports that are up, as {@code DEVICE/PORT}
 * @param tools its checkpointers
 */
public record NodeFacts(
        String hostName,
        String architecture,
        String kernel,
        String libc,
        String jdk,
        long clockEpochMs,
        long availableBytes,
        long stagingBytes,
        int chunkBytes,
        List<String> cpuFeatures,
        List<String> rdmaPorts,
        List<Tool> tools) {

    /**
     * A checkpointer of a node.
     *
     * @param name by which source and target agree on it
     * @param available whether it can run there
     * @param detail its version, or why it cannot
     */
    public record Tool(String name, boolean available, String detail) {}

    public NodeFacts {
        cpuFeatures = List.copyOf(cpuFeatures);
        rdmaPorts = List.copyOf(rdmaPorts);
        tools = List.copyOf(tools);
    }

    /** Returns the same node with this much room for retained images. */
    public NodeFacts withStaging(long bytes) {
        return new NodeFacts(
                hostName,
                architecture,
                kernel,
                libc,
                jdk,
                clockEpochMs,
                availableBytes,
                bytes,
                chunkBytes,
                cpuFeatures,
                rdmaPorts,
                tools);
    }

    /** The same node at another time by its clock. */
    public NodeFacts at(long epochMs) {
        return new NodeFacts(
                hostName,
                architecture,
                kernel,
                libc,
                jdk,
                epochMs,
                availableBytes,
                stagingBytes,
                chunkBytes,
                cpuFeatures,
                rdmaPorts,
                tools);
    }
}
