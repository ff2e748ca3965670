package io.ppmr.protocol.control;

import java.util.List;
import java.util.Optional;

/**
 * What a job's processes will need where they go on. Immutable.
 *
 * @param checkpointer what checkpoints them; empty where only the nodes are compared
 * @param residentBytes the memory that is theirs alone, an estimate of the image's size
 * @param streamableBytes of that, what the source would stream into the copies while it is still read, so that it need
 *     not wait as a part of an image; 0 if all of it is to go as images
 * @param pids the PIDs that they have, each as it sees itself
 * @param files what they have mapped: programs, libraries, data; those that can be found again by name
 * @param pod the pod that the job is, if it is one
 */
public record JobFacts(
        String checkpointer,
        long residentBytes,
        long streamableBytes,
        List<Integer> pids,
        List<MappedFile> files,
        Optional<PodFacts> pod) {
    /** No job: only the nodes are compared. */
    public static final JobFacts NONE = new JobFacts("", 0, 0, List.of(), List.of());

    /** A job that is no pod. */
    public JobFacts(
            String checkpointer, long residentBytes, long streamableBytes, List<Integer> pids, List<MappedFile> files) {
        this(checkpointer, residentBytes, streamableBytes, pids, files, Optional.empty());
    }

    /**
     * A file that processes have mapped.
     *
     * @param path where it lies
     * @param lengthBytes its length; another length is another file
     */
    public record MappedFile(String path, long lengthBytes) {}

    /** The same job, of whose memory so much is offered to be streamed. */
    public JobFacts withStreamable(long bytes) {
        return new JobFacts(checkpointer, residentBytes, bytes, pids, files, pod);
    }

    /** The same job, which is this pod. */
    public JobFacts asPod(PodFacts facts) {
        // What it has mapped of its own directories comes with it.
        List<MappedFile> nodes = files.stream()
                .filter(file ->
                        facts.mounts().stream().anyMatch(mount -> file.path().startsWith(mount + "/")))
                .toList();
        return new JobFacts(checkpointer, residentBytes, streamableBytes, List.of(), nodes, Optional.of(facts));
    }

    public JobFacts {
        pids = List.copyOf(pids);
        files = List.copyOf(files);
    }
}
