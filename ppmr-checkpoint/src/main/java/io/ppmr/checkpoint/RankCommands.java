package io.ppmr.checkpoint;

import io.ppmr.linux.Command;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.UninterruptedWait;
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
 * The commands of all ranks of an attempt, checkpoints or restarts, from their start to their end. A few threads, at
 * most one for each core, start them, because starting a process needs one core. No start waits for another command, so
 * commands that wait for each other at a barrier make progress.
 *
 * <p>Owned by one thread, which calls all its methods.
 */
public final class RankCommands {
    private static final Logger LOG = LoggerFactory.getLogger(RankCommands.class);
    private static final int MOST_STARTERS = 8;

    /** Starts the command of a rank and returns at once. Called on one of the starting threads. */
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

    /** @param name name of the commands, for threads and messages: {@code checkpoint} */
    public RankCommands(String name) {
        this.name = name;
    }

    /** Begins to start a command for each rank, in this order, and returns at once. Call it once. */
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
            // The threads that watch its command inherit this context.
            try (LogContext.Scope about = LogContext.rank(rank)) {
                watch(rank, start.start(rank));
            } catch (IOException | CheckpointException | RuntimeException | OutOfMemoryError e) {
                // The JVM reports a thread that the node does not provide by an Error.
                fail(rank, e);
            }
        }
    }

    private void watch(int rank, RankCommand command) {
        commands.put(rank, command);
        if (noMore) {
            command.cancel();
        }
        command.whenFailing(why -> fail(rank, why));
        command.whenEnded(() -> ended.add(rank));
    }

    /** Adds the command of a rank that its caller has started. */
    public void add(int rank, RankCommand command) {
        open.add(rank);
        watch(rank, command);
    }

    private void fail(int rank, Throwable why) {
        failure.compareAndSet(null, why);
        noMore = true;
        ended.add(rank);
    }

    /**
     * Returns the next command that ended.
     *
     * @param atMost maximum time of the wait
     * @return its held rank, or empty if no further command ended in that time
     * @throws CheckpointException if one failed, or could not be started. It stays under way until {@link #endAll}.
     *     A failed restart may leave processes that read an image. They end when their reads fail.
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

    /** Returns the ranks whose commands have not succeeded. They have not started, run, or have failed. */
    public Set<Integer> ranks() {
        return Set.copyOf(open);
    }

    /** Returns true if the command of every rank has succeeded and was returned by {@link #next}. */
    public boolean isEmpty() {
        return open.isEmpty();
    }

    /** Lists the processes that the current commands have started on this node. */
    public List<ProcessIdentity> started() {
        return commands.values().stream()
                .flatMap(command -> command.started().stream())
                .toList();
    }

    /** Starts no further command. Commands that were not started no longer count as under way. */
    public void startNoMore() {
        noMore = true;
        toStart.clear();
        if (starters.stream().noneMatch(Thread::isAlive)) {
            open.retainAll(commands.keySet());
        }
    }

    /**
     * Removes the commands that ended by themselves, with any outcome.
     *
     * @return the ranks that they left held
     */
    public List<HeldRank> takeEnded() {
        startNoMore();
        return await(System.nanoTime());
    }

    /**
     * Ends all commands at once, and waits for them. An interrupt shortens no wait and stays set. A command that does
     * not end in time is logged, and no longer awaited.
     *
     * @param deadline time limit for all together
     * @return the ranks that a command left held in the meantime
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
                LOG.error("the {} of rank {} has not ended within {}; check its process", name, rank, deadline);
            }
        }
        open.clear();
        commands.clear();
        return held;
    }

    private List<HeldRank> await(long deadlineNs) {
        List<HeldRank> held = new ArrayList<>();
        for (Map.Entry<Integer, RankCommand> one : List.copyOf(commands.entrySet())) {
            // Started commands are awaited before an interrupt takes effect.
            UninterruptedWait.of(() -> awaitEnd(one.getKey(), one.getValue(), deadlineNs))
                    .ifPresent(held::add);
        }
        return held;
    }

    /** Removes a command if it ended by then. Returns the rank that it left held. */
    private Optional<HeldRank> awaitEnd(int rank, RankCommand command, long deadlineNs) throws InterruptedException {
        try (LogContext.Scope about = LogContext.rank(rank)) {
            HeldRank late = command.await(Duration.ofNanos(Math.max(0, deadlineNs - System.nanoTime())));
            if (late != null) {
                forget(rank);
            }
            return Optional.ofNullable(late);
        } catch (CheckpointException | RuntimeException e) {
            LOG.info("the {} of rank {} ended: {}", name, rank, e.getMessage());
            forget(rank);
            return Optional.empty();
        }
    }
}
