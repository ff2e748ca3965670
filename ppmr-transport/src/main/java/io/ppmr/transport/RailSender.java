package io.ppmr.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.LogContext;
import io.ppmr.protocol.data.DataMessage.EndRail;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends chunks over several networks at once, and fails over between them (paper 5, section 5). It selects the rail for
 * each chunk, tracks the unconfirmed chunks, and handles the loss of a rail.
 *
 * <p>A chunk goes to the working rail with the fewest chunks under way. Only rails of the highest priority whose
 * minimum piece size it reaches are considered. A rail is connected when it is first needed. A rail that fails, or on
 * which nothing moves for two seconds, gets no more chunks. Its connections are closed here. Then the target must end
 * it, too: only the target knows when no late chunk of the rail can be written to a reused slot. The target replies
 * with the number of chunks that arrived on each connection. The other chunks are sent again over other rails. The rail
 * is then connected again, at growing intervals. If no rail works, the session fails.
 *
 * <p>Each session has one, which the migration's thread creates, opens and closes. {@link #send} is for any thread and
 * never blocks. A thread watches the rails, and each connection attempt has a thread. Sending a chunk allocates
 * nothing.
 */
public final class RailSender implements ChunkSender {
    private static final Logger LOG = LoggerFactory.getLogger(RailSender.class);
    private static final long TICK_MS = 20;
    private static final long TICK_NS = TimeUnit.MILLISECONDS.toNanos(TICK_MS);
    private static final long MAX_BACK_OFF_NS = TimeUnit.SECONDS.toNanos(60);
    private static final long STABLE_NS = TimeUnit.SECONDS.toNanos(30);
    private static final long SENDER_EXIT_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long JOIN_MS = 5_000;
    private static final long PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(50);

    private static final long NO_PROGRESS = -1;

    /** Value of {@code railOf} for a chunk that is not under way. */
    private static final int NO_RAIL = -1;
    /** Value of {@code railOf} for a chunk that is queued for a rail. */
    private static final int WAITING = -2;

    /**
     * The connections of one generation of a rail, from connecting to loss. It is closed after a
     * failure.
     */
    public interface RailConnection extends ChunkSender {
        /** A number that grows whenever the network accepts bytes; any thread. */
        long movedBytes();

        /**
         * Returns whether a chunk that was under way arrived, by the target's message. Called after {@link #close}.
         *
         * @throws ProtocolException if the message cannot be true
         */
        boolean hasArrived(int chunk, RailEnded report) throws ProtocolException;
    }

    /** Connects rails. Any thread; blocks for a bounded time. */
    @FunctionalInterface
    public interface Opener {
        /**
         * Connects a rail and proves to the target that it belongs to the session.
         *
         * @param rail its number, which the target assigned
         * @param generation its generation: the number of connections of this rail, including this one
         * @param onFailure called once if it fails before it is closed
         */
        RailConnection open(int rail, int generation, Consumer<String> onFailure) throws IOException;
    }

    /** Sends rail control messages to the target in order. Blocks for a bounded time. */
    @FunctionalInterface
    public interface RailControl {
        void send(EndRail request) throws IOException;
    }

    /**
     * A rail that both nodes have.
     *
     * @param number its number at the target
     * @param figures its counters
     */
    public record Route(int number, RailSettings settings, RailFigures figures) {}

    /**
     * The time limits for a rail and for the target.
     *
     * @param silenceNs the time without any progress after which a rail counts as failed
     * @param answerNs the time within which the target must end a rail
     * @param firstBackOffNs the first back-off before a failed rail is connected again; it doubles each time, up to a
     *     minute
     */
    public record RailLimits(long silenceNs, long answerNs, long firstBackOffNs) {
        /** Production limits. */
        public static final RailLimits PRODUCTION =
                new RailLimits(TimeUnit.SECONDS.toNanos(2), TimeUnit.SECONDS.toNanos(10), TimeUnit.SECONDS.toNanos(1));
    }

    private enum State {
        /** Not needed until now. */
        IDLE,
        CONNECTING,
        UP,
        /** Failed and accepts no chunks. The target was not notified yet. */
        LOST,
        /** The target was requested to end it. */
        ENDING,
        /** Ended at both ends. */
        DOWN
    }

    private final int attempt;
    private final Opener opener;
    private final RailControl control;
    private final Consumer<String> onFailure;
    private final RailLimits limits;
    /** Sorted by descending priority. */
    private final List<Rail> rails = new ArrayList<>();

    /** Guards the states of the rails. */
    private final Object lock = new Object();

    private final Thread watcher = LogContext.thread(this::watch, "ppmr-rails");

    // The attributes of a chunk under way. Its sender writes them before it sends the chunk.
    private final AtomicIntegerArray railOf;
    private final int[] offsetInChunk;
    private final int[] lengthBytes;
    private final int[] file;
    private final long[] offset;
    private final int[] slot;
    private final int[] crc32c;
    private final boolean[] releaseSoonOf;

    private final AtomicInteger waiting = new AtomicInteger();
    private volatile Releases releases;
    private volatile String failure;
    private volatile boolean closed;

    /**
     * Creates the sender without connecting a rail.
     *
     * @param attempt number of the session's attempt
     * @param routes at least one
     * @param control sends messages to the session's target
     * @param onFailure called once, when no rail works
     */
    public RailSender(
            BufferPool pool,
            int attempt,
            List<Route> routes,
            Opener opener,
            RailControl control,
            Consumer<String> onFailure,
            RailLimits limits) {
        this.attempt = attempt;
        this.opener = opener;
        this.control = control;
        this.onFailure = onFailure;
        this.limits = limits;
        routes.stream()
                .sorted(Comparator.comparingInt(
                        (Route route) -> -route.settings().priority()))
                .forEach(route -> rails.add(new Rail(route, rails.size())));
        int chunks = pool.geometry().chunkCount();
        railOf = new AtomicIntegerArray(chunks);
        for (int chunk = 0; chunk < chunks; chunk++) {
            railOf.set(chunk, NO_RAIL);
        }
        offsetInChunk = new int[chunks];
        lengthBytes = new int[chunks];
        file = new int[chunks];
        offset = new long[chunks];
        slot = new int[chunks];
        crc32c = new int[chunks];
        releaseSoonOf = new boolean[chunks];
    }

    /** One rail. The lock guards its fields unless a comment states otherwise. */
    private final class Rail {
        private final int index;
        private final Route route;
        private final RailSettings settings;
        /** Chunks that were passed to it and were not released; any thread. */
        private final AtomicInteger underWay = new AtomicInteger();
        /** Threads that are about to pass a chunk to the connection; any thread. */
        private final AtomicInteger senders = new AtomicInteger();

        private volatile State state = State.IDLE;
        private volatile RailConnection connection;
        /** Chunks that were released in this generation; any thread. */
        private final AtomicInteger released = new AtomicInteger();

        /** Bytes that arrived on this rail in this session; any thread. */
        private final LongAdder arrivedBytes = new LongAdder();

        private int generation;
        private boolean hasFailed;
        /** It was lost while no chunk was under way on any rail. */
        private boolean endedIdle;

        private String downReason;
        /** The reason if it failed during the connection attempt, or null. */
        private String failedEarly;
        /** The target's answer, until the watcher processes it. */
        private RailEnded ended;

        private boolean retryAtOnce;
        private long backOffNs = limits.firstBackOffNs();
        private long nextTryNs;
        private long upNs;
        private long answerDueNs;

        // Owned by the watcher.
        private long lastProgress;
        private long lastProgressNs;

        private Rail(Route route, int index) {
            this.route = route;
            this.index = index;
            this.settings = route.settings();
        }

        private String name() {
            return settings.name();
        }

        /** Sends a chunk whose attributes were stored; returns false if the rail no longer works. Never blocks. */
        private boolean trySend(int chunk) {
            senders.incrementAndGet();
            try {
                if (state != State.UP) {
                    return false;
                }
                railOf.set(chunk, index);
                underWay.incrementAndGet();
                int ofThisGeneration = generation;
                try {
                    connection.send(
                            chunk,
                            offsetInChunk[chunk],
                            lengthBytes[chunk],
                            file[chunk],
                            offset[chunk],
                            slot[chunk],
                            crc32c[chunk],
                            releaseSoonOf[chunk]);
                } catch (IOException e) {
                    // The chunk stays assigned to this rail until the target ended the rail.
                    reportLoss(this, ofThisGeneration, e.getMessage());
                }
                return true;
            } finally {
                senders.decrementAndGet();
            }
        }

        /** Handles the release of a chunk; on the connection's thread. */
        private void released(int chunk) throws ProtocolException {
            if (chunk < 0 || chunk >= railOf.length() || !railOf.compareAndSet(chunk, index, NO_RAIL)) {
                throw new ProtocolException("the target releases chunk " + chunk + ", which is not on rail " + name());
            }
            underWay.decrementAndGet();
            released.incrementAndGet();
            arrivedBytes.add(lengthBytes[chunk]);
            route.figures().addArrived(lengthBytes[chunk]);
            releases.released(chunk);
        }

        private void setState(State next, String text) {
            state = next;
            route.figures().setState(text);
        }

        /** Starts the back-off after a failure. Each one is longer. Requires the lock. */
        private void backOff(String reason) {
            hasFailed = true;
            downReason = reason;
            backOffNs =
                    System.nanoTime() - upNs > STABLE_NS && released.get() > 0 ? limits.firstBackOffNs() : backOffNs;
            nextTryNs = System.nanoTime() + backOffNs;
            backOffNs = Math.min(2 * backOffNs, MAX_BACK_OFF_NS);
            setState(State.DOWN, "down: " + reason);
        }
    }

    // ---- the migration's thread -------------------------------------------------------------------------------

    /**
     * Connects one rail, of the highest priority that is reachable, to prove early that one works. The target must
     * accept connections now, or soon. Blocks.
     *
     * @throws IOException if no rail can be connected; names each with its reason
     */
    public void open() throws IOException {
        for (Rail rail : rails) {
            synchronized (lock) {
                startGeneration(rail);
            }
            connect(rail);
            if (rail.state == State.UP) {
                return;
            }
        }
        close();
        throw new IOException(noRailMessage());
    }

    /** Starts the watcher, so that failed rails are ended at the target. The target must have accepted the session. */
    @Override
    public void begin(int sessionAttempt, Releases released) {
        releases = released;
        watcher.start();
    }

    /** Returns the bytes that arrived at the target on each rail in this session, by its name. */
    public Map<String, Long> arrivedBytes() {
        Map<String, Long> bytes = new LinkedHashMap<>();
        rails.forEach(rail -> bytes.put(rail.name(), rail.arrivedBytes.sum()));
        return bytes;
    }

    /** The rails' names, for messages. */
    @Override
    public String path() {
        return "rails " + rails.stream().map(Rail::name).collect(Collectors.joining(", "));
    }

    @Override
    public long operations() {
        long sum = 0;
        for (Rail rail : rails) {
            RailConnection connected = rail.connection;
            sum += connected == null ? 0 : connected.operations();
        }
        return sum;
    }

    @Override
    public MemoryProof proof() {
        return MemoryProof.NONE;
    }

    @Override
    public void close() {
        synchronized (lock) {
            closed = true;
            lock.notifyAll();
        }
        try {
            if (watcher.isAlive()) {
                watcher.join(JOIN_MS);
                if (watcher.isAlive()) {
                    LOG.error("{} did not end within {} ms", watcher.getName(), JOIN_MS);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        for (Rail rail : rails) {
            RailConnection connected = rail.connection;
            if (connected != null) {
                connected.close();
            }
            boolean endedWithSession;
            synchronized (lock) {
                endedWithSession = rail.endedIdle && (rail.state == State.LOST || rail.state == State.ENDING);
            }
            if (rail.state == State.UP || endedWithSession) {
                rail.route.figures().setState("up when the last migration ended");
            }
        }
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    @Override
    public void send(
            int chunk,
            int partOffset,
            int partBytes,
            int fileId,
            long fileOffset,
            int grantedSlot,
            int partCrc32c,
            boolean releaseSoon)
            throws IOException {
        requireWorking();
        offsetInChunk[chunk] = partOffset;
        lengthBytes[chunk] = partBytes;
        file[chunk] = fileId;
        offset[chunk] = fileOffset;
        slot[chunk] = grantedSlot;
        crc32c[chunk] = partCrc32c;
        releaseSoonOf[chunk] = releaseSoon;
        if (!dispatch(chunk)) {
            synchronized (lock) {
                requireWorking();
                railOf.set(chunk, WAITING);
                waiting.incrementAndGet();
                lock.notifyAll();
            }
        }
    }

    private void requireWorking() throws IOException {
        if (failure != null || closed) {
            throw new IOException(failure == null ? "the transport was closed" : failure);
        }
    }

    /** Passes a chunk to the best rail; returns false if none works. */
    private boolean dispatch(int chunk) {
        Rail best = selectRail(lengthBytes[chunk]);
        while (best != null && !best.trySend(chunk)) {
            best = selectRail(lengthBytes[chunk]);
        }
        return best != null;
    }

    /** Selects the rail for a piece; null if none works. Rails that are needed for the first time are connected. */
    private Rail selectRail(int pieceBytes) {
        boolean isConnecting = false;
        Rail best = null;
        for (Rail rail : rails) {
            if (best != null && rail.settings.priority() < best.settings.priority()) {
                break;
            }
            if (pieceBytes >= rail.settings.minBytes()) {
                isConnecting |= connectIfIdle(rail);
                best = lessBusy(best, rail);
            }
        }
        if (best == null && !isConnecting) {
            // A rail with a larger minimum piece size is better than none.
            for (Rail rail : rails) {
                connectIfIdle(rail);
                best = lessBusy(best, rail);
            }
        }
        return best;
    }

    private static Rail lessBusy(Rail best, Rail rail) {
        boolean isBetter = rail.state == State.UP && (best == null || rail.underWay.get() < best.underWay.get());
        return isBetter ? rail : best;
    }

    /** Connects a rail that was not needed before. Returns whether its first connection attempt is running. */
    private boolean connectIfIdle(Rail rail) {
        if (rail.state == State.IDLE) {
            synchronized (lock) {
                if (rail.state == State.IDLE) {
                    connectAsync(rail);
                }
            }
        }
        return rail.state == State.CONNECTING && !rail.hasFailed;
    }

    /** Handles the failure of a rail, which accepts no more chunks. Does not block. */
    private void reportLoss(Rail rail, int generation, String reason) {
        synchronized (lock) {
            if (rail.generation == generation && rail.state == State.CONNECTING) {
                rail.failedEarly = reason;
            } else if (rail.generation == generation && rail.state == State.UP) {
                setLost(rail, reason);
            }
        }
    }

    /** Requires the lock. */
    private void setLost(Rail rail, String reason) {
        // At the end of a session the target may close the connections first.
        rail.endedIdle = waiting.get() == 0 && rails.stream().allMatch(other -> other.underWay.get() == 0);
        if (rail.endedIdle) {
            LOG.info("rail {} ended while no chunk was under way: {}", rail.name(), reason);
        } else {
            LOG.warn("rail {} failed: {}", rail.name(), reason);
        }
        rail.downReason = reason;
        rail.setState(State.LOST, "failed: " + reason);
        lock.notifyAll();
    }

    @Override
    public void onRailEnded(RailEnded report) throws IOException {
        synchronized (lock) {
            for (Rail rail : rails) {
                if (rail.route.number() == report.rail()
                        && rail.generation == report.generation()
                        && rail.state == State.ENDING
                        && rail.ended == null) {
                    rail.ended = report;
                    lock.notifyAll();
                    return;
                }
            }
        }
        throw new ProtocolException("unexpected message RailEnded for rail " + report.rail() + ", generation "
                + report.generation() + ": the peer is broken");
    }

    // ---- connecting -------------------------------------------------------------------------------------------

    /** Requires the lock. */
    private void startGeneration(Rail rail) {
        rail.generation++;
        rail.failedEarly = null;
        rail.endedIdle = false;
        rail.retryAtOnce = false;
        rail.released.set(0);
        rail.setState(State.CONNECTING, "connecting");
    }

    /** Requires the lock. */
    private void connectAsync(Rail rail) {
        startGeneration(rail);
        LogContext.thread(() -> connect(rail), "ppmr-rail-connect").start();
    }

    private void connect(Rail rail) {
        int generation = rail.generation;
        RailConnection connected = null;
        String reason = null;
        try {
            connected = opener.open(rail.route.number(), generation, cause -> reportLoss(rail, generation, cause));
            connected.begin(attempt, rail::released);
        } catch (IOException e) {
            reason = String.valueOf(e.getMessage());
        } catch (RuntimeException | Error e) {
            reason = e.toString();
            LOG.error("rail {} cannot be connected", rail.name(), e);
        }
        boolean isWanted;
        synchronized (lock) {
            isWanted = connected != null && reason == null && !closed;
            if (isWanted) {
                LOG.info("rail {} is connected: {}", rail.name(), connected.path());
                rail.connection = connected;
                rail.upNs = System.nanoTime();
                rail.ended = null;
                rail.lastProgress = NO_PROGRESS;
                rail.setState(State.UP, "up");
                if (rail.failedEarly != null) {
                    setLost(rail, rail.failedEarly);
                }
            } else {
                String cause = reason == null ? "the session ended in the meantime" : reason;
                LOG.warn("rail {} cannot be connected: {}", rail.name(), cause);
                rail.backOff(cause);
            }
            lock.notifyAll();
        }
        if (!isWanted && connected != null) {
            connected.close();
        }
    }

    // ---- the watcher's thread ---------------------------------------------------------------------------------

    private void watch() {
        try {
            long beforeNs = System.nanoTime();
            while (isWanted()) {
                long nowNs = System.nanoTime();
                // While this thread did not run, it could not observe progress.
                long missedNs = Math.max(0, nowNs - beforeNs - 2 * TICK_NS);
                beforeNs = nowNs;
                for (Rail rail : rails) {
                    checkRails(rail, nowNs, missedNs);
                }
                sendWaiting();
                retryOrFail();
            }
        } catch (IOException e) {
            fail(e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            fail("the watcher of the rails was interrupted");
        } catch (RuntimeException | Error e) {
            LOG.error("the watcher of the rails failed", e);
            fail("the watcher of the rails failed: " + e);
        }
    }

    /** Waits up to {@value #TICK_MS} ms, or until a rail failed or ended. Returns false when the sender is closed. */
    private boolean isWanted() throws InterruptedException {
        synchronized (lock) {
            if (!closed && rails.stream().noneMatch(rail -> rail.state == State.LOST || rail.ended != null)) {
                TimeUnit.NANOSECONDS.timedWait(lock, TICK_NS);
            }
            return !closed;
        }
    }

    private void fail(String reason) {
        synchronized (lock) {
            if (failure != null || closed) {
                return;
            }
            failure = reason;
        }
        onFailure.accept(reason);
    }

    private void checkRails(Rail rail, long nowNs, long missedNs) throws IOException {
        switch (rail.state) {
            case UP -> {
                long now = rail.connection.movedBytes() + rail.released.get();
                rail.lastProgressNs += missedNs;
                if (now != rail.lastProgress || rail.underWay.get() == 0) {
                    rail.lastProgress = now;
                    rail.lastProgressNs = nowNs;
                } else if (nowNs - rail.lastProgressNs > limits.silenceNs()) {
                    reportLoss(
                            rail,
                            rail.generation,
                            "no progress for " + TimeUnit.NANOSECONDS.toMillis(nowNs - rail.lastProgressNs) + " ms");
                }
            }
            case LOST -> end(rail);
            case ENDING -> {
                if (rail.ended != null) {
                    recoverChunks(rail);
                } else if (nowNs - rail.answerDueNs > 0) {
                    throw new IOException("the target did not end rail " + rail.name() + " within "
                            + TimeUnit.NANOSECONDS.toMillis(limits.answerNs())
                            + " ms, so its chunks cannot be retransmitted: the target hangs");
                }
            }
            case DOWN -> {
                if (nowNs - rail.nextTryNs > 0) {
                    synchronized (lock) {
                        connectAsync(rail);
                    }
                }
            }
            default -> {
                // It is not needed, or is being connected.
            }
        }
    }

    /** Ends a lost rail here, and requests its end from the target. */
    private void end(Rail rail) throws IOException {
        long deadlineNs = System.nanoTime() + SENDER_EXIT_NS;
        while (rail.senders.get() > 0) {
            if (System.nanoTime() - deadlineNs > 0) {
                throw new IOException("a thread is blocked in the failed rail " + rail.name() + ": this node hangs");
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
        rail.connection.close();
        synchronized (lock) {
            rail.answerDueNs = System.nanoTime() + limits.answerNs();
            rail.state = State.ENDING;
        }
        control.send(new EndRail(rail.route.number(), rail.generation));
    }

    /** Handles the end of a rail at the target: releases arrived chunks, and queues the others for retransmission. */
    private void recoverChunks(Rail rail) throws ProtocolException {
        int retransmitted = 0;
        for (int chunk = 0; chunk < railOf.length(); chunk++) {
            if (railOf.get(chunk) != rail.index) {
                continue;
            }
            if (rail.connection.hasArrived(chunk, rail.ended)) {
                rail.released(chunk);
            } else {
                railOf.set(chunk, WAITING);
                waiting.incrementAndGet();
                retransmitted++;
            }
        }
        LOG.info("rail {} ended at both ends; retransmitting {} chunks on other rails", rail.name(), retransmitted);
        rail.route.figures().addLoss(retransmitted);
        rail.underWay.set(0);
        synchronized (lock) {
            rail.ended = null;
            rail.retryAtOnce = rail.released.get() > 0;
            rail.backOff(rail.downReason);
        }
    }

    private void sendWaiting() {
        for (int chunk = 0; waiting.get() > 0 && chunk < railOf.length(); chunk++) {
            if (railOf.get(chunk) == WAITING && dispatch(chunk)) {
                waiting.decrementAndGet();
            }
        }
    }

    /**
     * If chunks wait and no rail works, at once reconnects the rails on which chunks arrived in their last generation.
     */
    private void retryOrFail() throws IOException {
        if (waiting.get() == 0) {
            return;
        }
        synchronized (lock) {
            if (rails.stream().anyMatch(rail -> rail.state != State.DOWN)) {
                return;
            }
            rails.stream().filter(rail -> rail.retryAtOnce).forEach(this::connectAsync);
            if (rails.stream().allMatch(rail -> rail.state == State.DOWN)) {
                throw new IOException(noRailMessage());
            }
        }
    }

    private String noRailMessage() {
        return "no rail to the target works ("
                + rails.stream()
                        .map(rail -> rail.name() + ": " + rail.downReason)
                        .collect(Collectors.joining("; "))
                + "): repair one of these networks, or add another to [[rails]] on both nodes";
    }
}
