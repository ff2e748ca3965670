package io.ppmr.system;

import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Random;
import java.util.Set;

/**
 * The features that a job of {@code feature-job} can have, each with its expected outcome. It moves, or the job is
 * refused before the pause with these words.
 */
enum JobFeature {
    PLAIN,
    ANON,
    COW,
    SHARED_FILE,
    MEMFD,
    MEMFD_DATA,
    NOACCESS,
    SPARSE,
    MLOCK,
    MANY_MAPS,
    HEAP,
    CHILD_MEMORY,
    THREADS,
    CONDITION,
    FAMILY,
    STOPPED,
    READ,
    WRITE,
    APPEND,
    UNLINKED,
    DUP,
    INHERITED,
    FLAGS,
    FOLDER,
    O_PATH,
    DEVICES,
    HIGH,
    MANY_FILES,
    WORKING,
    UMASK,
    ODD_NAME,
    PIPE_CHILD,
    PIPE_SELF,
    FIFO,
    WIDOWED,
    PAIR,
    QUEUE,
    PACKETS,
    UNIX,
    LISTEN,
    UDP,
    EVENTFD,
    EVENTFD_SEMAPHORE("semaphore"),
    EPOLL,
    TIMERFD,
    SIGNALFD,
    INOTIFY,
    PTY,
    AIO,
    CLOCKS,
    OWNERS,
    ITIMER,
    POSIX_TIMER,
    PENDING,
    SIGALTSTACK,
    NICE,
    BATCH,
    LIMIT,
    NO_NEW_PRIVS,
    SECCOMP,
    NAME,
    OOM,
    WORDS,
    AFFINITY,
    TIMER_SLACK,
    MULTICAST("multicast group"),
    APPEND_OUT,
    LONG_MAPS,
    CROWD,
    TEBIBYTES,

    FORGED("holds a lock"),
    FLOCK("holds a lock"),
    RECORD_LOCK("holds a lock"),
    SYSV("System V shared memory"),
    PACKET_PIPE("keeps packets apart"),
    ESTABLISHED("TCP connection"),
    LOCAL_WRITE("feature-job.out"),
    LOCAL_FOLDER("/feature-job"),
    PIPE_OUT("its data is read by PID"),
    PIPE_IN("its data is written by PID"),
    FIFO_OUT("its data is read by PID"),
    PAIR_OUT("its other end belongs to PID"),
    STREAM_OUT("its other end belongs to PID"),
    LOG_OUT("its other end belongs to PID"),
    ANON_OUT("the same memory belongs to PID"),
    MEMFD_OUT("the same memory belongs to PID"),
    MAPPED_OUT("the same memory belongs to PID"),
    FILE_OUT("the same open file"),
    INPUT_OUT("the same open file"),
    EVENTFD_OUT("the same open file"),
    EPOLL_OUT("watches by epoll"),
    PTY_OUT("its other end belongs to PID"),
    TCP_OUT("the same socket is open in PID"),
    PIDFD_OUT("has a pidfd of PID"),
    TRACED("is traced"),
    RANK_FILE("which belongs to rank 1"),
    RANK_PIPE("which belongs to rank 1");

    /** They are slow, or concern the reported messages. They have tests of their own. */
    private static final Set<JobFeature> ALONE = EnumSet.of(LONG_MAPS, CROWD, TEBIBYTES, FORGED);

    /**
     * A job has at most one feature of each set. They concern the same resource, or a tracer would delay each signal of
     * a timer.
     */
    private static final List<Set<JobFeature>> APART = List.of(
            EnumSet.of(WORKING, LOCAL_FOLDER),
            EnumSet.of(UDP, MULTICAST),
            EnumSet.of(TRACED, ITIMER),
            EnumSet.of(TRACED, POSIX_TIMER));

    private static final Set<JobFeature> OF_TWO_RANKS = EnumSet.of(RANK_FILE, RANK_PIPE);
    private static final int LEAST = 3;
    private static final int MORE = 11;
    private static final int IN_HUNDRED = 100;
    private static final int MOVING_IN_HUNDRED = 60;

    private final Optional<String> refusal;

    JobFeature() {
        refusal = Optional.empty();
    }

    JobFeature(String refusal) {
        this.refusal = Optional.of(refusal);
    }

    /** Returns its name in the program. */
    String word() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** Returns words of the refusal of a job that has it, or empty if it moves. */
    Optional<String> refusal() {
        return refusal;
    }

    /**
     * A job that was drawn.
     *
     * @param features of its rank 0
     * @param ranks 1 or 2
     */
    record Drawn(List<JobFeature> features, int ranks) {
        boolean moves() {
            return features.stream().allMatch(feature -> feature.refusal.isEmpty());
        }

        /** Returns whether a refusal names a feature that the job has. */
        boolean isNamedBy(String reason) {
            return features.stream()
                    .anyMatch(feature -> feature.refusal.isPresent() && reason.contains(feature.refusal.get()));
        }
    }

    /** Draws a job by a seed. Three jobs in five have no refused feature. */
    static Drawn draw(long seed) {
        Random random = new Random(seed);
        boolean moves = random.nextInt(IN_HUNDRED) < MOVING_IN_HUNDRED;
        List<JobFeature> moving = shuffled(random, true);
        List<JobFeature> refused = shuffled(random, false);
        List<JobFeature> features = new ArrayList<>();
        int count = LEAST + random.nextInt(MORE);
        moving.stream().limit(count).forEach(feature -> add(feature, features));
        if (!moves) {
            refused.stream().limit(1 + random.nextInt(2)).forEach(feature -> add(feature, features));
        }
        boolean two = features.stream().anyMatch(OF_TWO_RANKS::contains);
        return new Drawn(List.copyOf(features), two || random.nextInt(IN_HUNDRED) < 10 ? 2 : 1);
    }

    private static List<JobFeature> shuffled(Random random, boolean moving) {
        List<JobFeature> all = new ArrayList<>();
        for (JobFeature feature : values()) {
            if (feature.refusal.isEmpty() == moving && !ALONE.contains(feature)) {
                all.add(feature);
            }
        }
        Collections.shuffle(all, random);
        return all;
    }

    private static void add(JobFeature feature, List<JobFeature> to) {
        boolean clashes = APART.stream()
                .anyMatch(pair -> pair.contains(feature) && to.stream().anyMatch(pair::contains));
        if (!clashes) {
            to.add(feature);
        }
    }
}
