package io.ppmr.protocol.control;

import java.util.List;

/**
 * The properties of a node that decide whether a process of one node can continue at another. Collected again for each
 * migration and each {@code ppmr doctor}; immutable.
 *
 * @param hostName the node's own host name
 * @param architecture the machine's architecture, {@code amd64} or {@code aarch64}
 * @param kernel its release, as uname(2) returns it
 * @param libc the C library with its version
 * @param jdk the service's Java version
 * @param clockEpochMs its clock when the facts were collected
 * @param availableBytes memory that is available to processes, {@code MemAvailable} in proc(5)
 * @param stagingBytes the staging space for retained images; 0 at a source
 * @param chunkBytes the chunk size of its pool
 * @param cpuFeatures the usable instruction sets, by the kernel's names in {@code /proc/cpuinfo}
 * @param rdmaPorts its active RDMA ports, as {@code DEVICE/PORT}
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
     * @param name the name on which source and target agree
     * @param available whether it can run there
     * @param detail its version, or the reason why it cannot run
     */
    public record Tool(String name, boolean available, String detail) {}

    public NodeFacts {
        cpuFeatures = List.copyOf(cpuFeatures);
        rdmaPorts = List.copyOf(rdmaPorts);
        tools = List.copyOf(tools);
    }

    /** Returns the same node with this much staging space for retained images. */
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

    /** Returns the same node with another time of its clock. */
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
