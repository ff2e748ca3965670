package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer.StreamedForm;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.OpenedFiles;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.node.MemoryShape;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.node.Preparation;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.data.MemoryWay;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The source's choice for sending a job's memory: copied while it computes, streamed into the copies, or as a part of
 * the images. A target may still require another way. Made before the job is changed; immutable.
 *
 * @param facts facts of each rank, with the offered streams
 * @param way the offered way
 * @param why the reason for it
 * @param required whether the job is not moved in any other way
 * @param rule when a copy of a running job's memory ends
 */
record PageChoice(Map<Integer, JobFacts> facts, MemoryWay way, String why, boolean required, PreCopyRule rule) {
    private static final Logger LOG = LoggerFactory.getLogger(PageChoice.class);
    private static final String AS_IMAGES = "as images: ";
    private static final String EARLIER_FAILED = "an earlier attempt failed";
    private static final long MIB = 1 << 20;
    /** Maximum number of pages of a job's address space that are inspected one by one: 4 GiB. */
    private static final long MOST_PAGES = 1 << 20;
    /** CRIU's daemon requests each process of a rank separately, and ppmr-pages keeps an account of each. */
    private static final int MOST_PROCESSES = 256;

    /**
     * Inspects the job's memory and chooses.
     *
     * @param keeps whether a copy of the images is kept, which needs them complete
     * @param carry which files move with the job
     * @param facts facts of each rank
     * @param trees each rank's processes
     * @param preparation checked between two pieces of work
     * @param rule whether a copy of the running job's memory is worth its time
     * @throws CheckpointException if the configuration requires streamed pages, and they are impossible
     */
    static PageChoice of(
            Job job,
            boolean keeps,
            CarryPolicy carry,
            Map<Integer, JobFacts> facts,
            Map<Integer, List<ProcessIdentity>> trees,
            Preparation preparation,
            PreCopyRule rule)
            throws CheckpointException {
        StreamedForm form = job.checkpointer().streamedForm();
        Map<Integer, JobFacts> offered = new LinkedHashMap<>(facts);
        String why = form.whyNot();
        List<String> left = new ArrayList<>();
        boolean streams = false;
        int most = trees.values().stream().mapToInt(List::size).max().orElse(0);
        if (keeps && form.form().isPresent()) {
            why = "a copy of the images is kept, which needs them complete";
        } else if (form.form().isPresent() && mayCarry(carry, trees, preparation)) {
            why = "files of this node move with the job (files.copy), and must be in place before it is" + " restored";
        } else if (form.form().isPresent() && most > MOST_PROCESSES) {
            why = "a rank has " + most + " processes, but pages are streamed for at most " + MOST_PROCESSES;
        } else if (form.form().isPresent()) {
            MemoryShape whole = MemoryShape.NONE;
            long residentBytes = 0;
            long largestBytes = 0;
            for (Map.Entry<Integer, JobFacts> rank : facts.entrySet()) {
                List<ProcessIdentity> streamed = new ArrayList<>();
                for (ProcessIdentity process : trees.get(rank.getKey())) {
                    Optional<String> whyLeft = job.checkpointer().whyNotStreamed(process);
                    whyLeft.ifPresentOrElse(left::add, () -> streamed.add(process));
                }
                MemoryShape shape = MemoryShape.of(streamed, MOST_PAGES / facts.size(), preparation);
                offered.put(rank.getKey(), rank.getValue().withStreamable(shape.streamableBytes()));
                whole = whole.plus(shape);
                residentBytes += rank.getValue().residentBytes();
                largestBytes = Math.max(largestBytes, shape.streamableBytes());
            }
            why = largestBytes > form.mostBytes()
                    ? "a rank has " + largestBytes / MIB
                            + " MiB, and CRIU's page server may have descriptors for " + form.mostBytes() / MIB
                            + " here: give the service CAP_SYS_RESOURCE, or raise LimitNOFILE"
                    : whyImages(form, whole, residentBytes, left);
            streams = why.isEmpty();
            why = streams ? sizes(whole) + also(left) : why;
        }
        if (form.required() && !streams) {
            throw new CheckpointException("job " + job.name() + " is not moved: the configuration requires pages ="
                    + " \"streamed\", but " + why + ". Remedy: set pages = \"auto\", or remove that cause");
        }
        if (!streams) {
            return new PageChoice(facts, MemoryWay.IMAGES, why.isEmpty() ? "" : AS_IMAGES + why, false, rule);
        }
        long streamableBytes =
                offered.values().stream().mapToLong(JobFacts::streamableBytes).sum();
        Optional<String> whyNot = whyNotPreCopied(job, streamableBytes, rule);
        MemoryWay way = whyNot.isPresent() ? MemoryWay.STREAMED : MemoryWay.PRECOPIED;
        offered.replaceAll((rank, one) -> one.streamableBytes() > 0 ? one.sent(way) : one);
        return new PageChoice(
                offered,
                way,
                why
                        + whyNot.filter(reason ->
                                        !form.required() || job.checkpointer().prefersPreCopy())
                                .map(reason -> "; not copied while it computes: " + reason)
                                .orElse(""),
                form.required(),
                rule);
    }

    /** Returns why the job's memory is not copied while it runs, or empty if it is offered so. */
    private static Optional<String> whyNotPreCopied(Job job, long streamableBytes, PreCopyRule rule) {
        // A process of one pod sees none of another, whose memory it could write.
        if (job.pods().isEmpty()
                && job.ranks().size() > 1
                && !job.checkpointer().prefersPreCopy()) {
            // process_vm_writev(2) of a rank that runs can write into another one's pages past a look at them.
            return Optional.of("its ranks may write into each other's memory; pages = \"precopied\" allows it");
        }
        return job.checkpointer()
                .whyNotPreCopied()
                .or(() -> rule.whyTooLate(streamableBytes, System.nanoTime()))
                .or(() ->
                        job.checkpointer().prefersPreCopy() ? Optional.empty() : rule.whyShortEnough(streamableBytes));
    }

    /** Returns whether a process has a file open that moves with the job if the target has no equal one. */
    private static boolean mayCarry(
            CarryPolicy carry, Map<Integer, List<ProcessIdentity>> trees, Preparation preparation)
            throws CheckpointException {
        boolean[] found = {false};
        if (carry.copy().isEmpty()) {
            return false;
        }
        for (List<ProcessIdentity> tree : trees.values()) {
            for (ProcessIdentity process : tree) {
                preparation.requireTime();
                try {
                    OpenedFiles.read(
                            process.pid(),
                            "",
                            file -> found[0] |= !file.seemsUnnamed()
                                    && !file.place().equals("working directory")
                                    && (file.reads() || file.writes())
                                    && carry.names(file.path()));
                } catch (IOException e) {
                    // The process may be gone. Otherwise the comparison with the target reports the error.
                    LOG.debug("the files of process {} cannot be listed", process.pid(), e);
                }
                if (found[0]) {
                    return true;
                }
            }
        }
        return false;
    }

    /** @param left for each process that is not streamed, the reason */
    private static String whyImages(StreamedForm form, MemoryShape whole, long residentBytes, List<String> left)
            throws CheckpointException {
        if (form.required()) {
            return left.isEmpty() || whole.streamableBytes() >= residentBytes / 2 ? "" : left.get(0);
        }
        return whole.whyImages(residentBytes, memoryOfNode())
                .map(why -> left.isEmpty() ? why : left.get(0) + "; " + why)
                .orElse("");
    }

    private static String also(List<String> left) {
        return left.isEmpty()
                ? ""
                : "; all memory of " + left.size() + " more process" + (left.size() == 1 ? "" : "es") + " goes"
                        + " into the images: " + left.get(0);
    }

    private static String sizes(MemoryShape shape) {
        long sharedMib = shape.sharedBytes() / MIB;
        return shape.streamableBytes() / MIB + " MiB"
                + (sharedMib > 0
                        ? ", of which " + sharedMib + " MiB are shared since a fork and will not be in the copies"
                        : "");
    }

    private static long memoryOfNode() throws CheckpointException {
        try {
            return NodeProbe.totalBytes();
        } catch (IOException e) {
            throw new CheckpointException("this node's memory size could not be read: " + e, e);
        }
    }

    /**
     * Returns how an attempt sends the memory, and why, or empty if the checkpointer has only one way.
     *
     * @param tries number of attempts, with this one, that targets accepted; what failed is not repeated so
     * @param accepted the ways of its targets
     * @param reasons reasons of the targets that require another way than the offered one
     */
    String sentence(int tries, List<MemoryWay> accepted, List<String> reasons) {
        if (way == MemoryWay.IMAGES) {
            return why;
        }
        if (wayOf(tries) == MemoryWay.IMAGES) {
            return AS_IMAGES + EARLIER_FAILED;
        }
        MemoryWay most = Collections.max(accepted);
        MemoryWay least = Collections.min(accepted);
        String because = String.join("; ", reasons);
        if (most == MemoryWay.IMAGES) {
            return AS_IMAGES + because;
        }
        String begin = (most == MemoryWay.PRECOPIED ? "precopied: " : "streamed: ")
                + why
                + (tries == 1 ? "" : "; " + EARLIER_FAILED);
        if (reasons.isEmpty()) {
            return begin;
        }
        return begin
                + (least == most ? "; " : least == MemoryWay.IMAGES ? ", but as images: " : ", but streamed: ")
                + because;
    }

    /**
     * Returns the facts of a rank in an attempt. What failed once is not offered again.
     *
     * @param tries number of attempts, with this one, that targets accepted
     */
    JobFacts inTry(int tries, JobFacts offered) {
        return tries == 1 || offered.offer() == MemoryWay.IMAGES ? offered : offered.sent(wayOf(tries));
    }

    /** After a copy before the pause the job is streamed, and after that it goes as images. */
    private MemoryWay wayOf(int tries) {
        boolean isStreamed = required || (way == MemoryWay.PRECOPIED && tries == 2);
        return tries == 1 ? way : isStreamed ? MemoryWay.STREAMED : MemoryWay.IMAGES;
    }
}
