package io.ppmr.system.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.LongFunction;

/**
 * A puller with configured faults, around one without faults. It is for tests, and for an operator who simulates a bad
 * link. The thread that pulls draws the fault of a pull at its start.
 */
public final class FaultyPuller implements ChunkPuller, PullListener {
    /** The fault of one pull. */
    public enum PullFault {
        /** No fault: it succeeds. */
        NONE,
        /** It arrives later than those after it. */
        DELAY,
        /** One bit of it is flipped on the way. */
        CORRUPT,
        /** It fails. */
        FAIL
    }

    /** The fault that was drawn for a pull, and the wait of a delayed one. */
    public record Drawn(PullFault fault, long delayMs) {
        public static final Drawn NOTHING = new Drawn(PullFault.NONE, 0);
    }

    private record UnderWay(Drawn drawn, int chunk, int offset) {}

    private final BufferPool pool;
    private final PullListener listener;
    private final LongFunction<Drawn> draw;
    private final ChunkPuller inner;
    private final ConcurrentHashMap<Long, UnderWay> underWay = new ConcurrentHashMap<>();
    private final Set<Long> delayed = ConcurrentHashMap.newKeySet();
    private final Timer timer = new Timer("ppmr-fault-delay", true);

    /**
     * @param draw returns the fault of a pull by its id
     * @param inner makes the puller that does the work, with the listener that it is to report to
     */
    public FaultyPuller(
            BufferPool pool,
            PullListener listener,
            LongFunction<Drawn> draw,
            Function<PullListener, ChunkPuller> inner) {
        this.pool = pool;
        this.listener = listener;
        this.draw = draw;
        this.inner = inner.apply(this);
    }

    @Override
    public int depth() {
        return inner.depth();
    }

    @Override
    public void pull(long pullId, RemoteBlock from, int localChunk, int localOffset, boolean more) {
        underWay.put(pullId, new UnderWay(draw.apply(pullId), localChunk, localOffset));
        inner.pull(pullId, from, localChunk, localOffset, more);
    }

    @Override
    public void onPullCompleted(long pullId) {
        UnderWay pull = underWay.remove(pullId);
        switch (pull.drawn.fault()) {
            case NONE -> listener.onPullCompleted(pullId);
            case CORRUPT -> {
                var chunk = pool.buffer(pull.chunk);
                chunk.put(pull.offset, (byte) (chunk.get(pull.offset) ^ 1));
                listener.onPullCompleted(pullId);
            }
            case FAIL -> listener.onPullFailed(pullId, "a fault was injected into this pull");
            case DELAY -> delay(pullId, pull.drawn.delayMs());
        }
    }

    @Override
    public void onPullFailed(long pullId, String reason) {
        underWay.remove(pullId);
        listener.onPullFailed(pullId, reason);
    }

    @Override
    public void close() {
        inner.close();
        timer.cancel();
        for (Long pullId : Set.copyOf(delayed)) {
            if (delayed.remove(pullId)) {
                listener.onPullFailed(pullId, "the transport was closed while the pull was delayed");
            }
        }
    }

    private void delay(long pullId, long delayMs) {
        delayed.add(pullId);
        TimerTask arrival = new TimerTask() {
            @Override
            public void run() {
                if (delayed.remove(pullId)) {
                    listener.onPullCompleted(pullId);
                }
            }
        };
        try {
            timer.schedule(arrival, delayMs);
        } catch (IllegalStateException e) {
            if (delayed.remove(pullId)) {
                listener.onPullFailed(pullId, "the transport was closed while the pull was delayed: " + e.getMessage());
            }
        }
    }
}
