package io.ppmr.migration.source;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * The cancellation of a migration: whether it is still possible, and whether it was done. Made by the caller that
 * starts it, shared with the migration's thread. One outcome is reached at a time, so that a cancellation that was
 * accepted is never followed by a commit. An attempt that falls back after the decision opens it again. Any thread.
 */
public final class Cancellation {
    private sealed interface CancelState {}

    private record CalledOff(String reason) implements CancelState {}

    private record Decided() implements CancelState {}

    private final AtomicReference<CancelState> state = new AtomicReference<>();
    private final List<Consumer<String>> told = new CopyOnWriteArrayList<>();

    /**
     * Calls the migration off; the first reason counts.
     *
     * @return whether it is called off now; if not, the decision to commit was taken before
     */
    public boolean cancel(String reason) {
        if (state.compareAndSet(null, new CalledOff(reason))) {
            told.forEach(ends -> ends.accept(reason));
        }
        return state.get() instanceof CalledOff;
    }

    /**
     * Has something told why the migration is called off, as soon as it is, perhaps twice: what ends a wait in which
     * the migration's thread would not see it. It must not wait itself.
     */
    void tell(Consumer<String> ends) {
        told.add(ends);
        reason().ifPresent(ends);
    }

    /** The migration's thread takes the decision to commit; throws if it was called off before. */
    void decide() throws IOException {
        state.compareAndSet(null, new Decided());
        check();
    }

    /** The attempt that was to be committed is rolled back instead: what follows may be called off again. */
    void reopen() {
        if (state.get() instanceof Decided decided) {
            state.compareAndSet(decided, null);
        }
    }

    /** Returns the reason why it was called off; empty if it was not. */
    Optional<String> reason() {
        return state.get() instanceof CalledOff calledOff ? Optional.of(calledOff.reason()) : Optional.empty();
    }

    /** Throws if the migration was called off. */
    void check() throws IOException {
        if (state.get() instanceof CalledOff calledOff) {
            throw new IOException(calledOff.reason());
        }
    }
}
