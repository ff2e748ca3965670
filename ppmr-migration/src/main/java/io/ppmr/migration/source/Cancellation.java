package io.ppmr.migration.source;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * The cancellation of a migration: whether it is still possible, and whether it happened. The caller that starts the
 * migration makes it, and shares it with the migration's thread. Cancellation and commit exclude each other. An attempt
 * that rolls back after the decision permits a cancellation again. Any thread.
 */
public final class Cancellation {
    private sealed interface CancelState {}

    private record CalledOff(String reason) implements CancelState {}

    private record Decided() implements CancelState {}

    private final AtomicReference<CancelState> state = new AtomicReference<>();
    private final List<Consumer<String>> listeners = new CopyOnWriteArrayList<>();

    /**
     * Calls the migration off. The first reason counts.
     *
     * @return whether it is called off now, or false if the decision to commit came before
     */
    public boolean cancel(String reason) {
        if (state.compareAndSet(null, new CalledOff(reason))) {
            listeners.forEach(ends -> ends.accept(reason));
        }
        return state.get() instanceof CalledOff;
    }

    /**
     * Adds a listener for the cancellation, which is called at once, perhaps twice. It must end a wait in which the
     * migration's thread could not notice the cancellation. The listener must not block.
     */
    void onCancel(Consumer<String> ends) {
        listeners.add(ends);
        reason().ifPresent(ends);
    }

    /** Takes the decision to commit, on the migration's thread. Throws if the migration was called off before. */
    void decide() throws IOException {
        state.compareAndSet(null, new Decided());
        check();
    }

    /** Permits a cancellation again, because the attempt of the decision is rolled back. */
    void reopen() {
        if (state.get() instanceof Decided decided) {
            state.compareAndSet(decided, null);
        }
    }

    /** Returns the reason of the cancellation, or empty if there was none. */
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
