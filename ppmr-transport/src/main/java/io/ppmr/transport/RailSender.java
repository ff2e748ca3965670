package io.ppmr.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.os.LogContext;
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
 * Sends chunks over several networks at once, and fails over between them (paper 5, section 5): selects the rail for
 * each chunk, tracks the unconfirmed chunks, and handles the loss of a rail.
 *
 * <p>A chunk goes to the rail with the fewest chunks under way among those of the highest priority that work and whose
 * smallest piece it reaches. A rail is connected when it is first needed. A rail that fails, or on which nothing moves
 * for two seconds, gets no more chunks. Its connections are closed here. Then the target must end it, too: only the
 * target knows when no late chunk of the rail can land in a slot that is used again. The target replies with the number
 * of chunks that arrived on each connection. The other chunks are sent again over other rails. The rail is then
 * connected again, at growing intervals. If no rail works, the session fails.
 *
 * <p>One a session, made, opened and closed by the thread that runs the migration; {@link #send} for any thread, which
 * never waits. A thread of its own watches the rails, and each connecting has one while it lasts. Nothing is allocated
 * for a chunk.
 */
public final class RailSender implements ChunkSender {
    private static final Logger LOG = LoggerFactory.getLogger(RailSender.class);
    private static final long TICK_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long LONGEST_REST_NS = TimeUnit.SECONDS.toNanos(60);
    private static final long SOUND_NS = TimeUnit.SECONDS.toNanos(30);
    private static final long LEAVE_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long JOIN_MS = 5_000;
    private static final long PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(50);

    private static final long NOTHING_SEEN = -1;

    /** Value of {@code railOf} for a chunk that is not under way. */
    private static final int HERE = -1;
    /** Value of {@code railOf} for a chunk that is queued for a rail. */
    private static final int WAITING = -2;

    /**
     * The connections of one generation of a rail, from connecting to loss. It does not know the other rails; it is
     * closed after a failure.
     */
    public interface RailConnection extends ChunkSender {
        /** A number that grows whenever the network takes something; any thread. */
        long movedBytes();

        /**
         * Returns whether a chunk that was under way arrived, by the target's message; called after {@link #close}.
         *
         * @throws ProtocolException if the message cannot be true
         */
        boolean hasArrived(int chunk, RailEnded word) throws ProtocolException;
    }

    /** Connects rails. Any thread; blocks it, within a deadline. */
    @FunctionalInterface
    public interface Opener {
        /**
         * Connects a rail and proves to the target that it belongs to the session.
         *
         * @param rail its number, which the target has given it
         * @param generation its generation: how often it was connected, including this time
         * @param onFailure called once if it fails before it is closed
         */
        RailConnection open(int rail, int generation, Consumer<String> onFailure) throws IOException;
    }

    /** Sends rail control messages to the target in order. Blocks for a bounded time. */
    @FunctionalInterface
    public interface RailControl {
        void send(EndRail word) throws IOException;
    }

    /**
     * A rail that both nodes have.
     *
     * @param number its number at the target
     * @param figures where it is counted
     */
    public record Route(int number, RailSettings settings, RailFigures figures) {}

    /**
     * The time limits for a rail and for the target.
     *
     * @param silenceNs without any progress, after which a rail has failed
     * @param answerNs until the target has ended a rail
     * @param firstBackOffNs back-off until a failed rail is connected again; doubles each time, up to a minute
     */
    public record RailLimits(long silenceNs, long answerNs, long firstBackOffNs) {
        /** Production limits. */
        public static final RailLimits PRODUCTION =
                new RailLimits(TimeUnit.SECONDS.toNanos(2), TimeUnit.SECONDS.toNanos(10), TimeUnit.SECONDS.toNanos(1));
    }

    private enum State {
        /** Was never needed. */
        IDLE,
        CONNECTING,
        UP,
        /** Failed, and accepts no more; the target was not notified. */
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
    /** The highest priority first. */
    private final List<Rail> rails = new ArrayList<>();

    /** Guards the states of the rails. */
    private final Object lock = new Object();

    private final Thread watcher = LogContext.thread(this::watch, "ppmr-rails");

    // What a chunk is, while it is under way; written by who sends it, before.
    private final AtomicIntegerArray railOf;
    private final int[] offsetInChunk;
    private final int[] lengthBytes;
    private final int[] file;
    private final long[] offset;
    private final int[] slot;
    private final int[] crc32c;
    private final boolean[] soon;

    private final AtomicInteger waiting = new AtomicInteger();
    private volatile Releases releases;
    private volatile String failure;
    private volatile boolean closed;

    /**
     * Makes them; none is connected.
     *
     * @param attempt number of the session's attempt
     * @param ways at least one
     * @param word says things to the target of the session
     * @param onFailure called once, when no rail works
     */
    public RailSender(
            BufferPool pool,
            int attempt,
            List<Route> ways,
            Opener opener,
            RailControl word,
            Consumer<String> onFailure,
            RailLimits limits) {
        this.attempt = attempt;
        this.opener = opener;
        this.control = word;
        this.onFailure = onFailure;
        this.limits = limits;
        ways.stream()
                .sorted(Comparator.comparingInt((Route way) -> -way.settings().priority()))
                .forEach(way -> rails.add(new Rail(way, rails.size())));
        int chunks = pool.geometry().chunkCount();
        railOf = new AtomicIntegerArray(chunks);
        for (int chunk = 0; chunk < chunks; chunk++) {
            railOf.set(chunk, HERE);
        }
        offsetInChunk = new int[chunks];
        lengthBytes = new int[chunks];
        file = new int[chunks];
        offset = new long[chunks];
        slot = new int[chunks];
        crc32c = new int[chunks];
        soon = new boolean[chunks];
    }

    /** One rail; its fields are guarded by the lock unless they say something else. */
    private final class Rail {
        private final int index;
        private final Route route;
        private final RailSettings settings;
        /** Chunks that were given to it and have not come back; any thread. */
        private final AtomicInteger underWay = new AtomicInteger();
        /** Threads that are about to hand a chunk to the line; any thread. */
        private final AtomicInteger inside = new AtomicInteger();

        private volatile State state = State.IDLE;
        private volatile RailConnection connection;
        /** Chunks that came back in this generation; any thread. */
        private final AtomicInteger released = new AtomicInteger();

        /** Bytes that it has brought in this session; any thread. */
        private final LongAdder arrivedBytes = new LongAdder();

        private int generation;
        private boolean hasFailed;
        /** It was lost while nothing was under way on any rail. */
        private boolean endedIdle;

        private String why;
        /** The reason for which it failed while it was being connected, or null. */
        private String failedEarly;
        /** The target's answer, until it is looked at. */
        private RailEnded ended;

        private boolean mayTryAtOnce;
        private long backOffNs = limits.firstBackOffNs();
        private long nextTryNs;
        private long upNs;
        private long answerDueNs;

        // The watcher's.
        private long seen;
        private long seenNs;

        private Rail(Route way, int index) {
            this.route = way;
            this.index = index;
            this.settings = way.settings();
        }

        private String name() {
            return settings.name();
        }

        /** Sends a noted chunk; false if the rail no longer works. Never waits. */
        private boolean take(int chunk) {
            inside.incrementAndGet();
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
                            soon[chunk]);
                } catch (IOException e) {
                    // The chunk stays with this rail until the target has ended the rail.
                    lose(this, ofThisGeneration, e.getMessage());
                }
                return true;
            } finally {
                inside.decrementAndGet();
            }
        }

        /** Handles the release of a chunk; on the connection's thread. */
        private void released(int chunk) throws ProtocolException {
            if (chunk < 0 || chunk >= railOf.length() || !railOf.compareAndSet(chunk, index, HERE)) {
                throw new ProtocolException("the target releases chunk " + chunk + ", which is not on rail " + name());
            }
            underWay.decrementAndGet();
            released.incrementAndGet();
            arrivedBytes.add(lengthBytes[chunk]);
            route.figures().arrived(lengthBytes[chunk]);
            releases.released(chunk);
        }

        private void setState(State next, String text) {
            state = next;
            route.figures().setState(text);
        }

        /** Starts the back-off after a failure; each one is longer. Under the lock. */
        private void backOff(String reason) {
            hasFailed = true;
            why = reason;
            backOffNs = System.nanoTime() - upNs > SOUND_NS && released.get() > 0 ? limits.firstBackOffNs() : backOffNs;
            nextTryNs = System.nanoTime() + backOffNs;
            backOffNs = Math.min(2 * backOffNs, LONGEST_REST_NS);
            setState(State.DOWN, "down: " + reason);
        }
    }

    // ---- the migration's thread -------------------------------------------------------------------------------

    /**
     * Connects one rail, of the highest priority that can be had, so that it is known before anything depends on it
     * that there is one. The target takes their connections by then, or will soon. Blocks.
     *
     * @throws IOException if no rail can be connected; names each with its reason
     */
    public void open() throws IOException {
        for (Rail rail : rails) {
            synchronized (lock) {
                beginToConnect(rail);
            }
            connect(rail);
            if (rail.state == State.UP) {
                return;
            }
        }
        close();
        throw new IOException(noneWorks());
    }

    /** From now on a rail that fails is ended at the target, which must have accepted the session. */
    @Override
    public void begin(int sessionAttempt, Releases released) {
        releases = released;
        watcher.start();
    }

    /** Gives the bytes that each rail has brought to the target in this session, by its name. */
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
    public long work() {
        long sum = 0;
        for (Rail rail : rails) {
            RailConnection line = rail.connection;
            sum += line == null ? 0 : line.work();
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
                    LOG.error("{} has not ended within {} ms", watcher.getName(), JOIN_MS);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        for (Rail rail : rails) {
            RailConnection line = rail.connection;
            if (line != null) {
                line.close();
            }
            boolean endedWithUs;
            synchronized (lock) {
                endedWithUs = rail.endedIdle && (rail.state == State.LOST || rail.state == State.ENDING);
            }
            if (rail.state == State.UP || endedWithUs) {
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
        soon[chunk] = releaseSoon;
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

    /** Gives a chunk to the best rail; false if none works. */
    private boolean dispatch(int chunk) {
        Rail best = selectRail(lengthBytes[chunk]);
        while (best != null && !best.take(chunk)) {
            best = selectRail(lengthBytes[chunk]);
        }
        return best != null;
    }

    /** Chooses the rail for a piece; null if none works. Those that are needed for the first time are connected. */
    private Rail selectRail(int pieceBytes) {
        boolean isComing = false;
        Rail best = null;
        for (Rail rail : rails) {
            if (best != null && rail.settings.priority() < best.settings.priority()) {
                break;
            }
            if (pieceBytes >= rail.settings.minBytes()) {
                isComing |= want(rail);
                best = lessBusy(best, rail);
            }
        }
        if (best == null && !isComing) {
            // Better by a rail that is not for so small a piece than not at all.
            for (Rail rail : rails) {
                want(rail);
                best = lessBusy(best, rail);
            }
        }
        return best;
    }

    private static Rail lessBusy(Rail best, Rail rail) {
        boolean isBetter = rail.state == State.UP && (best == null || rail.underWay.get() < best.underWay.get());
        return isBetter ? rail : best;
    }

    /** Has a rail connected that was never needed; tells whether it is being connected for the first time. */
    private boolean want(Rail rail) {
        if (rail.state == State.IDLE) {
            synchronized (lock) {
                if (rail.state == State.IDLE) {
                    connectSoon(rail);
                }
            }
        }
        return rail.state == State.CONNECTING && !rail.hasFailed;
    }

    /** A rail has failed: it takes no more. Does not wait. */
    private void lose(Rail rail, int generation, String reason) {
        synchronized (lock) {
            if (rail.generation == generation && rail.state == State.CONNECTING) {
                rail.failedEarly = reason;
            } else if (rail.generation == generation && rail.state == State.UP) {
                becomesLost(rail, reason);
            }
        }
    }

    /** Under the lock. */
    private void becomesLost(Rail rail, String reason) {
        // At the end of a session the target may close them first.
        rail.endedIdle = waiting.get() == 0 && rails.stream().allMatch(other -> other.underWay.get() == 0);
        if (rail.endedIdle) {
            LOG.info("rail {} has ended while nothing was under way: {}", rail.name(), reason);
        } else {
            LOG.warn("rail {} has failed: {}", rail.name(), reason);
        }
        rail.why = reason;
        rail.setState(State.LOST, "failed: " + reason);
        lock.notifyAll();
    }

    @Override
    public void railEnded(RailEnded said) throws IOException {
        synchronized (lock) {
            for (Rail rail : rails) {
                if (rail.route.number() == said.rail()
                        && rail.generation == said.generation()
                        && rail.state == State.ENDING
                        && rail.ended == null) {
                    rail.ended = said;
                    lock.notifyAll();
                    return;
                }
            }
        }
        throw new ProtocolException("the target says that it has ended rail " + said.rail() + ", generation "
                + said.generation() + ", which it was not asked for");
    }

    // ---- connecting -------------------------------------------------------------------------------------------

    /** Under the lock. */
    private void beginToConnect(Rail rail) {
        rail.generation++;
        rail.failedEarly = null;
        rail.endedIdle = false;
        rail.mayTryAtOnce = false;
        rail.released.set(0);
        rail.setState(State.CONNECTING, "connecting");
    }

    /** Under the lock. */
    private void connectSoon(Rail rail) {
        beginToConnect(rail);
        LogContext.thread(() -> connect(rail), "ppmr-rail-connect").start();
    }

    private void connect(Rail rail) {
        int generation = rail.generation;
        RailConnection line = null;
        String reason = null;
        try {
            line = opener.open(rail.route.number(), generation, cause -> lose(rail, generation, cause));
            line.begin(attempt, rail::released);
        } catch (IOException e) {
            reason = String.valueOf(e.getMessage());
        } catch (RuntimeException | Error e) {
            reason = e.toString();
            LOG.error("rail {} cannot be connected", rail.name(), e);
        }
        boolean isWanted;
        synchronized (lock) {
            isWanted = line != null && reason == null && !closed;
            if (isWanted) {
                LOG.info("rail {} is connected: {}", rail.name(), line.path());
                rail.connection = line;
                rail.upNs = System.nanoTime();
                rail.ended = null;
                rail.seen = NOTHING_SEEN;
                rail.setState(State.UP, "up");
                if (rail.failedEarly != null) {
                    becomesLost(rail, rail.failedEarly);
                }
            } else {
                String why = reason == null ? "the session has ended meanwhile" : reason;
                LOG.warn("rail {} cannot be connected: {}", rail.name(), why);
                rail.backOff(why);
            }
            lock.notifyAll();
        }
        if (!isWanted && line != null) {
            line.close();
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
            fail("the watch over the rails was interrupted");
        } catch (RuntimeException | Error e) {
            LOG.error("the watch over the rails fails", e);
            fail("the watch over the rails fails: " + e);
        }
    }

    /** Waits for a moment, or until something has happened; false at the end. */
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
                rail.seenNs += missedNs;
                if (now != rail.seen || rail.underWay.get() == 0) {
                    rail.seen = now;
                    rail.seenNs = nowNs;
                } else if (nowNs - rail.seenNs > limits.silenceNs()) {
                    lose(
                            rail,
                            rail.generation,
                            "nothing has moved on it for " + TimeUnit.NANOSECONDS.toMillis(nowNs - rail.seenNs)
                                    + " ms");
                }
            }
            case LOST -> end(rail);
            case ENDING -> {
                if (rail.ended != null) {
                    settle(rail);
                } else if (nowNs - rail.answerDueNs > 0) {
                    throw new IOException("the target has not ended rail " + rail.name() + " within "
                            + TimeUnit.NANOSECONDS.toMillis(limits.answerNs())
                            + " ms, so its chunks cannot go again: the target hangs");
                }
            }
            case DOWN -> {
                if (nowNs - rail.nextTryNs > 0) {
                    synchronized (lock) {
                        connectSoon(rail);
                    }
                }
            }
            default -> {
                // It is not needed, or being connected.
            }
        }
    }

    /** Ends a lost rail here, and has the target end it. */
    private void end(Rail rail) throws IOException {
        long deadlineNs = System.nanoTime() + LEAVE_NS;
        while (rail.inside.get() > 0) {
            if (System.nanoTime() - deadlineNs > 0) {
                throw new IOException(
                        "a thread has not left rail " + rail.name() + ", which has failed: this node hangs");
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

    /** The target has ended a rail: what has arrived on it comes back, what has not goes again. */
    private void settle(Rail rail) throws ProtocolException {
        int again = 0;
        for (int chunk = 0; chunk < railOf.length(); chunk++) {
            if (railOf.get(chunk) != rail.index) {
                continue;
            }
            if (rail.connection.hasArrived(chunk, rail.ended)) {
                rail.released(chunk);
            } else {
                railOf.set(chunk, WAITING);
                waiting.incrementAndGet();
                again++;
            }
        }
        LOG.info("rail {} is ended at both ends; {} chunks go again by others", rail.name(), again);
        rail.route.figures().lost(again);
        rail.underWay.set(0);
        synchronized (lock) {
            rail.ended = null;
            rail.mayTryAtOnce = rail.released.get() > 0;
            rail.backOff(rail.why);
        }
    }

    private void sendWaiting() {
        for (int chunk = 0; waiting.get() > 0 && chunk < railOf.length(); chunk++) {
            if (railOf.get(chunk) == WAITING && dispatch(chunk)) {
                waiting.decrementAndGet();
            }
        }
    }

    /** If chunks wait and no rail works, tries those at once that have brought something in their last generation. */
    private void retryOrFail() throws IOException {
        if (waiting.get() == 0) {
            return;
        }
        synchronized (lock) {
            if (rails.stream().anyMatch(rail -> rail.state != State.DOWN)) {
                return;
            }
            rails.stream().filter(rail -> rail.mayTryAtOnce).forEach(this::connectSoon);
            if (rails.stream().allMatch(rail -> rail.state == State.DOWN)) {
                throw new IOException(noneWorks());
            }
        }
    }

    private String noneWorks() {
        return "no rail to the target works ("
                + rails.stream().map(rail -> rail.name() + ": " + rail.why).collect(Collectors.joining("; "))
                + "): mend one of these networks, or add another to [[rails]] on both nodes";
    }
}
