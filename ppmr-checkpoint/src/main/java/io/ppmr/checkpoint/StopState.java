package io.ppmr.checkpoint;

import java.util.Optional;

/**
 * The state of processes that must be stopped. Immutable.
 *
 * @param whyNotHeld the first thread that is not stopped, for people, or empty if all are stopped
 * @param isOffProcessors whether each thread has provably left its processor, too
 */
record StopState(Optional<String> whyNotHeld, boolean isOffProcessors) {
    boolean isHeld() {
        return whyNotHeld.isEmpty();
    }
}
