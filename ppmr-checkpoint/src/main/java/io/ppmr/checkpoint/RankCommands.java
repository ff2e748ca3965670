package io.ppmr.checkpoint;

import io.ppmr.os.Command;
import io.ppmr.os.LogContext;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.UninterruptedWait;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The commands of all ranks of an attempt, checkpoints or restarts, from their start to their end. They are started by
 * a few threads, as many as the node has cores, since starting a process takes the processor time of one; no start
 * waits for what another command does, so commands that wait for each other at a barrier get through.
 *
 * <p>Owned by one thread, which calls everything here.
 */
public final class RankCommands {
    private static final Logger LOG = LoggerFactory.getLogger(RankCommands.class);
    private static final int MOST_STARTERS = 8;

    /** Starts the command of a rank and returns at once; called on one of the starting threads. */
    @FunctionalInterface
    public interface CommandStart {
        RankCommand start(int rank) throws IOException, CheckpointException;
    }

    private final String name;
    private final Set<Integer> open = new LinkedHashSet<>();
    private final Map<Integer, RankCommand> commands = new ConcurrentHashMap<>();
    private final Queue<Integer> toStart = new ConcurrentLinkedQueue<>();
    private final BlockingQueue<Integer> ended = new LinkedBlockingQueue<>();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final List<Thread> starters = new ArrayList<>();
    private volatile boolean noMore;

    /** @param name of the commands, for the names of threads and for messages: {@code checkpoint} */
    public RankCommands(String name) {
        this.name = name;
    }

    /** Begins to start a command for each rank, in this order, and returns at once. To be called once. */
    public void start(Collection<Integer> ranks, CommandStart start) {
        Command.inheritNoJars();
        open.addAll(ranks);
        toStart.addAll(ranks);
        int threads = Math.min(
                ranks.size(), Math.min(MOST_STARTERS, Runtime.getRuntime().availableProcessors()));
        for (int i = 0; i < threads; i++) {
            starters.add(LogContext.thread(() -> startSome(start), "ppmr-" + name + "-starter"));
        }
        starters.forEach(Thread::start);
    }

    private void startSome(CommandStart start) {
        for (Integer next = noMore ? null : toStart.poll(); next != null; next = noMore ? null : toStart.poll()) {
            int rank = next;
            // The threads that watch its command have it from here.
            try (LogContext.Scope about = LogContext.rank(rank)) {
                RankCommand command = start.start(rank);
                commands.put(rank, command);
                if (noMore) {
                    command.cancel();
                }
                command.whenFailing(why -> fail(rank, why));
                command.whenEnded(() -> ended.add(rank));
            } catch (IOException | CheckpointException | RuntimeException | OutOfMemoryError e) {
                // The error is the JVM's word for a thread that the node does not give.
                fail(rank, e);
            }
        }
    }

    private void fail(int rank, Throwable why) {
        failure.compareAndSet(null, why);
        noMore = true;
        ended.add(rank);
    }

    /**
     * Takes one that has ended.
     *
     * @param atMost how long to wait for one
     * @return its rank, held; empty if none has ended by then that was not taken yet
     * @throws CheckpointException if one has failed, or could not be started: it stays under way until it is ended
     *     here. A restart that has failed may leave processes that read an image; they end when their reads fail
     */
    public Optional<HeldRank> next(Duration atMost) throws CheckpointException, InterruptedException {
        Integer rank = atMost.isZero() ? ended.poll() : ended.poll(atMost.toNanos(), TimeUnit.NANOSECONDS);
        Throwable why = failure.get();
        if (why != null) {
            throw new CheckpointException(String.valueOf(why.getMessage()), why);
        }
        RankCommand command = rank == null ? null : commands.get(rank);
        if (command == null) {
            return Optional.empty();
        }
        HeldRank held = command.await(Duration.ZERO);
        forget(rank);
        return Optional.of(held);
    }

    private void forget(int rank) {
        commands.remove(rank);
        open.remove(rank);
    }

    /** The ranks whose commands have not ended well: those that are not started yet, run, or have failed. */
    public Set<Integer> ranks() {
        return Set.copyOf(open);
    }

    /** Returns true if the command of every rank has ended well and was taken by {@link #next}. */
    public boolean isEmpty() {
        return open.isEmpty();
    }

    /** Lists the processes that the commands under way have started on this node. */
    public List<ProcessIdentity> started() {
        return commands.values().stream()
                .flatMap(command -> command.started().stream())
                .toList();
    }

    /** Starts no further one; those that were not started no longer count as under way. */
    public void startNoMore() {
        noMore = true;
        toStart.clear();
        if (starters.stream().noneMatch(Thread::isAlive)) {
            open.retainAll(commands.keySet());
        }
    }

    /**
     * Takes those off that have ended, well or not, by themselves.
     *
     * @return the ranks that they have left held
     */
    public List<HeldRank> takeEnded() {
        startNoMore();
        return await(System.nanoTime());
    }

    /**
     * Ends all of them at once, and waits until they have; an interrupt shortens no wait and stays set. Of one that has
     * not ended in time is logged, and is no longer waited for.
     *
     * @param deadline for all together
     * @return the ranks that a command has left held meanwhile
     */
    public List<HeldRank> endAll(Duration deadline) {
        long deadlineNs = System.nanoTime() + deadline.toNanos();
        startNoMore();
        commands.values().forEach(RankCommand::cancel);
        for (Thread starter : starters) {
            UninterruptedWait.of(() -> {
                TimeUnit.NANOSECONDS.timedJoin(starter, deadlineNs - System.nanoTime());
                return true;
            });
        }
        startNoMore();
        List<HeldRank> held = await(deadlineNs);
        for (int rank : open) {
            try (LogContext.Scope about = LogContext.rank(rank)) {
                LOG.error("the {} of rank {} has not ended within {}; look after its process", name, rank, deadline);
            }
        }
        open.clear();
        commands.clear();
        return held;
    }

    private List<HeldRank> await(long deadlineNs) {
        List<HeldRank> held = new ArrayList<>();
        for (Map.Entry<Integer, RankCommand> one : List.copyOf(commands.entrySet())) {
            // What was started is seen ended before an interrupt is heeded.
            UninterruptedWait.of(() -> awaitEnd(one.getKey(), one.getValue(), deadlineNs))
                    .ifPresent(held::add);
        }
        return held;
    }

    /** Takes it off if it has ended by then; the rank that it has left held. */
    private Optional<HeldRank> awaitEnd(int rank, RankCommand command, long deadlineNs) throws InterruptedException {
        try (LogContext.Scope about = LogContext.rank(rank)) {
            HeldRank late = command.await(Duration.ofNanos(Math.max(0, deadlineNs - System.nanoTime())));
            if (late != null) {
                forget(rank);
            }
            return Optional.ofNullable(late);
        } catch (CheckpointException | RuntimeException e) {
            LOG.info("the {} of rank {} has ended: {}", name, rank, e.getMessage());
            forget(rank);
            return Optional.empty();
        }
    }
}
