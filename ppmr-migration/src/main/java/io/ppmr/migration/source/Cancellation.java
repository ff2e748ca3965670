package io.ppmr.migration.source;

import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Whether a migration may still be called off, and whether it was. Made by whoever starts it, shared with the
 * migration's thread; each outcome is reached once, so that a cancellation that was accepted is never followed by a
 * commit. Any thread.
 */
public final class Cancellation {
    private sealed interface Fate {}

    private record CalledOff(String reason) implements Fate {}

    private record Decided() implements Fate {}

    private final AtomicReference<Fate> fate = new AtomicReference<>();

    /**
     * Calls the migration off; the first reason counts.
     *
     * @return whether it is called off now; if not, the decision to commit was taken before
     */
    public boolean cancel(String reason) {
        fate.compareAndSet(null, new CalledOff(reason));
        return fate.get() instanceof CalledOff;
    }

    /** The migration's thread takes the decision to commit; throws if it was called off before. */
    void decide() throws IOException {
        fate.compareAndSet(null, new Decided());
        check();
    }

    /** Why it was called off; empty if it was not. */
    Optional<String> reason() {
        return fate.get() instanceof CalledOff calledOff ? Optional.of(calledOff.reason()) : Optional.empty();
    }

    /** Throws if the migration was called off. */
    void check() throws IOException {
        if (fate.get() instanceof CalledOff calledOff) {
            throw new IOException(calledOff.reason());
        }
    }
}
