package io.ppmr.protocol.control;

import java.util.List;

/**
 * What a job's processes will need where they go on. Immutable.
 *
 * @param checkpointer what checkpoints them; empty where only the nodes are compared
 * @param residentBytes the memory that is theirs alone, an estimate of the image's size
 * @param streamableBytes of that, what the source would stream into the copies while it is still read, so that it need
 *     not wait as a part of an image; 0 if all of it is to go as images
 * @param pids the PIDs that they have, each as it sees itself
 * @param files what they have mapped: programs, libraries, data; those that can be found again by name
 */
public record JobFacts(
        String checkpointer, long residentBytes, long streamableBytes, List<Integer> pids, List<MappedFile> files) {
    /** No job: only the nodes are compared. */
    public static final JobFacts NONE = new JobFacts("", 0, 0, List.of(), List.of());

    /**
     * A file that processes have mapped.
     *
     * @param path where it lies
     * @param lengthBytes its length; another length is another file
     */
    public record MappedFile(String path, long lengthBytes) {}

    /** The same job, of whose memory so much is offered to be streamed. */
    public JobFacts withStreamable(long bytes) {
        return new JobFacts(checkpointer, residentBytes, bytes, pids, files);
    }

    public JobFacts {
        pids = List.copyOf(pids);
        files = List.copyOf(files);
    }
}
