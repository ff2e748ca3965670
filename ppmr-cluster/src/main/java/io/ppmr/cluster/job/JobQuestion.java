package io.ppmr.cluster.job;

import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.daemon.jobs.JobName;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The questions about jobs over several nodes: of services and commands to the active controller, and of that one to
 * services. They travel as JSON in a message of the cluster. Immutable.
 */
public sealed interface JobQuestion {
    /** The longest text of a question. */
    int MOST_CHARACTERS = 256 << 10;

    /** The questions, by their kinds in a message. */
    Map<String, Class<? extends JobQuestion>> KINDS = Map.ofEntries(
            Map.entry("register", Register.class),
            Map.entry("report", StepReport.class),
            Map.entry("checkpoint", OrderCheckpoint.class),
            Map.entry("restart", OrderRestart.class),
            Map.entry("fit", FindFit.class),
            Map.entry("forget", Forget.class),
            Map.entry("show", Show.class),
            Map.entry("move", Move.class),
            Map.entry("copy", AskCopy.class),
            Map.entry("foreign", FindForeign.class),
            Map.entry("pods", FindPods.class),
            Map.entry("images", FindImages.class),
            Map.entry("addresses", FindAddresses.class));

    /** Returns the job that it is about; null for all jobs. */
    JobName job();

    /**
     * A source has these pods of the job.
     *
     * @param members the number of pods of the job on all nodes
     * @param schedule its regular checkpoints
     */
    record Register(JobName job, String host, int members, Set<String> pods, JobRecord.JobSchedule schedule)
            implements JobQuestion {}

    /** The steps that members report. */
    enum MemberStep {
        /** All pods of the node are held, with their cables out. */
        OUT,
        /** Their images are on the disk. */
        IMAGE,
        /** The round is void for this node. */
        VOID,
        /** All pods of the node were ended, for a recovery. */
        ENDED,
        /** The pods were restored, and are held. */
        HELD,
        /** They were not. */
        FAILED,
        /** They run. */
        RELEASED
    }

    /**
     * A member reports a step. Reports are repeated until the job's record has changed.
     *
     * @param incarnation the incarnation of a checkpoint
     * @param number the round, or the restart
     * @param outcome of VOID: void, or refused
     * @param reason of VOID and FAILED
     * @param images of IMAGE
     */
    record StepReport(
            JobName job,
            String host,
            MemberStep step,
            long incarnation,
            long number,
            RoundOutcome outcome,
            String reason,
            NodeImages images)
            implements JobQuestion {}

    /** A user orders a checkpoint. */
    record OrderCheckpoint(JobName job) implements JobQuestion {}

    /**
     * A user orders a restart.
     *
     * @param set the set; empty for the newest
     * @param hosts the nodes; empty for those where the pods were. In a recovery: spare nodes that are taken last
     * @param here the node on which the user orders it
     * @param awayOff nodes, or addresses of targets, on which no pod of the job runs by an operator's confirmation
     * @param isRecovery whether living nodes end their pods first, and all pods are restored there, those of nodes that
     *     are off on spares
     */
    record OrderRestart(
            JobName job, String set, List<String> hosts, String here, List<String> awayOff, boolean isRecovery)
            implements JobQuestion {}

    /**
     * Controller to a target: can the node restore these pods? Nothing is touched.
     *
     * @param pods the pods that a plan names for it
     * @param isSpare whether none of the pods runs there now
     */
    record FindFit(JobName job, String set, Set<String> pods, boolean isSpare) implements JobQuestion {}

    /** A user removes a job's record. */
    record Forget(JobName job) implements JobQuestion {}

    /**
     * Shows jobs.
     *
     * @param job the job; null for all
     * @param uid the user whose jobs are shown; null for all users
     * @param after the end of the page before; null for the first page
     */
    record Show(JobName job, Integer uid, String after) implements JobQuestion {}

    /**
     * A source begins a migration of the job's pods, or reports its end.
     *
     * @param id the migration
     * @param host the node that reports it
     * @param isOver whether it ended
     * @param to the address of the target, HOST:PORT; empty if it is unknown
     * @param pods the pods that are no longer at the source; empty if none was moved
     */
    record Move(JobName job, String id, String host, boolean isOver, String to, Set<String> pods)
            implements JobQuestion {}

    /**
     * A query of a source in a checkpoint: which of these addresses belong to no pod of the job, on any node?
     *
     * @param round the number of the checkpoint
     * @param addresses the addresses of the peers of connections, {@link #MOST_ADDRESSES} at most
     */
    record FindForeign(JobName job, long round, Set<String> addresses) implements JobQuestion {
        /** The most addresses of a question, which must fit a frame. */
        public static final int MOST_ADDRESSES = 1000;
    }

    /**
     * A source with images of the job queries what to copy to the second place. It repeats that until the answer has
     * no number.
     *
     * @param set the set whose images of this node were copied, or are being copied; null if none
     * @param digests the digests of these images, by pod; null while they are being copied
     * @param copiedBytes how much was copied since the service began
     * @param failure why the images cannot be copied now; null if they can
     */
    record AskCopy(JobName job, String host, String set, Map<String, String> digests, long copiedBytes, String failure)
            implements JobQuestion {}

    /** Controller to a service: at which addresses do pods of the job run on the node? */
    record FindAddresses(JobName job) implements JobQuestion {}

    /** Controller to a service: which pods of the job run on the node, or were moved from it without a record? */
    record FindPods(JobName job) implements JobQuestion {}

    /**
     * Controller to a service: which images of a set can the node read?
     *
     * @param after the end of the page before; null for the first page
     * @param places the directories that count
     */
    record FindImages(JobName job, String set, String after, ImagePlaces places) implements JobQuestion {}

    /** The directories of a node that have images. */
    enum ImagePlaces {
        /** Those of checkpoints. */
        NEAR,
        /** Those of copies. */
        COPIES,
        /** All of them. */
        ALL
    }

    /**
     * The answer to a question.
     *
     * @param refusal why it is refused, or null
     * @param pods the pods that run, each with an empty text, or with the address of the target to which it was moved,
     *     which is not recorded; or the pods with their addresses; or the images by pod, each its digest and the node
     *     that has written it; or the addresses that belong to no pod; or the set to copy, with the bytes in a second;
     *     null if none were requested
     * @param jobs the jobs; null if none were requested
     * @param number the number of the round or restart that was ordered; or the seconds until
     *     a node with images repeats its query
     * @param next the end of this page, after which the next question continues; null if it is the last page
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    record Answer(String refusal, Map<String, String> pods, List<JobView> jobs, Long number, String next) {
        private static final long UNKNOWN_JOB = -1;
        /** It was accepted. */
        public static final Answer OK = new Answer(null, null, null, null, null);

        /** Returns a refusal. */
        public static Answer refused(String reason) {
            return new Answer(reason, null, null, null, null);
        }

        /** Returns the refusal for a job that controllers do not know. */
        static Answer unknownJob(JobName job) {
            return new Answer(
                    "there is no job " + job + " over several nodes. Remedy: run its pods with --job and --members;"
                            + " ppmr job list shows them",
                    null,
                    null,
                    UNKNOWN_JOB,
                    null);
        }

        /** Returns true if it is the refusal for a job that controllers do not know. */
        @JsonIgnore
        boolean isUnknownJob() {
            return refusal != null && number != null && number == UNKNOWN_JOB;
        }

        /** Returns the number of a round or restart. */
        static Answer numbered(long number) {
            return new Answer(null, null, null, number, null);
        }

        /** Returns a set that a node copies, with its rate and the seconds until the node must repeat its query. */
        static Answer ofCopy(String set, long rateBytes, long seconds) {
            return new Answer(null, Map.of(set, Long.toString(rateBytes)), null, seconds, null);
        }

        /** Returns pods with their digests or addresses, or names with empty texts. */
        public static Answer ofPods(Map<String, String> pods) {
            return new Answer(null, pods, null, null, null);
        }

        /** Returns a page of images. */
        static Answer ofImages(Map<String, String> images, Optional<String> next) {
            return new Answer(null, images, null, null, next.orElse(null));
        }

        /** Returns a page of jobs. */
        static Answer ofJobs(List<JobView> jobs, Optional<String> next) {
            return new Answer(null, null, jobs, null, next.orElse(null));
        }

        /** Returns the answer as JSON. */
        public String text() {
            return Json.write(this);
        }

        /** Reads an answer. */
        public static Optional<Answer> parse(String text) {
            return Json.read(text, Answer.class);
        }
    }

    /** Returns the kind of the question in a message. */
    default String kind() {
        return KINDS.entrySet().stream()
                .filter(kind -> kind.getValue() == getClass())
                .map(Map.Entry::getKey)
                .findFirst()
                .orElseThrow();
    }

    /** Returns the question as JSON. */
    default String text() {
        return Json.write(this);
    }

    /** Reads a question. Returns empty if it has another form. */
    static Optional<JobQuestion> parse(String kind, String text) {
        Class<? extends JobQuestion> type = KINDS.get(kind);
        return type == null ? Optional.empty() : Json.read(text, type).map(question -> question);
    }

    /** Reads and writes them. */
    final class Json {
        private static final ObjectMapper MAPPER = JsonMapper.builder()
                .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
                .build();

        private Json() {}

        private static String write(Object value) {
            try {
                return MAPPER.writeValueAsString(value);
            } catch (JacksonException e) {
                throw new IllegalStateException("a record of plain values cannot be written", e);
            }
        }

        private static <T> Optional<T> read(String text, Class<T> type) {
            if (text.length() > MOST_CHARACTERS) {
                return Optional.empty();
            }
            try {
                return Optional.ofNullable(MAPPER.readValue(text, type));
            } catch (JacksonException e) {
                return Optional.empty();
            }
        }
    }
}
