package io.ppmr.protocol.control;

import java.util.List;

/**
 * What a job's processes will need where they go on. Immutable.
 *
 * @param checkpointer what checkpoints them; empty where only the nodes are compared
 * @param residentBytes the memory that is theirs alone, an estimate of the image's size
 * @param pids the PIDs that they have, each as it sees itself
 * @param files what they have mapped: programs, libraries, data; those that can be found again by name
 */
public record JobFacts(String checkpointer, long residentBytes, List<Integer> pids, List<MappedFile> files) {
    /** No job: only the nodes are compared. */
    public static final JobFacts NONE = new JobFacts("", 0, List.of(), List.of());

    /**
     * A file that processes have mapped.
     *
     * @param path where it lies
     * @param lengthBytes its length; another length is another file
     */
    public record MappedFile(String path, long lengthBytes) {}

    public JobFacts {
        pids = List.copyOf(pids);
        files = List.copyOf(files);
    }
}
