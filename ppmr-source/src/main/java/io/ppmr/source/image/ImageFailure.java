package io.ppmr.source.image;

import java.util.concurrent.atomic.AtomicReference;

/**
 * Records the first failure of the images of one session, and decides the result of later writes. Shared by all files
 * of the session; any thread.
 *
 * <p>Only the first failure counts. It is final: the image cannot become complete afterwards. After that the calls of a
 * checkpointer beside the process fail with EIO, so that it ends soon. The writes of a checkpointer inside the process
 * succeed and are discarded, until {@link #refuseWrites}: an error could end the process, which is the only original.
 */
public final class ImageFailure {
    private final boolean writesInProcess;
    private final AtomicReference<String> failure = new AtomicReference<>();
    private volatile boolean refused;

    /** @param writesInProcess whether the processes write their images themselves */
    public ImageFailure(boolean writesInProcess) {
        this.writesInProcess = writesInProcess;
    }

    /**
     * Records that the images cannot become complete.
     *
     * @return whether this is the first failure
     */
    boolean fail(String reason) {
        return failure.compareAndSet(null, reason);
    }

    /** Returns the reason of the first failure, or null. */
    String failure() {
        return failure.get();
    }

    /** Returns true if calls succeed and their bytes are discarded. */
    boolean discards() {
        return writesInProcess && !refused && failure.get() != null;
    }

    /** Returns true if failed calls must report success: then a failure makes {@link #discards} true. */
    boolean mayDiscard() {
        return writesInProcess && !refused;
    }

    /** After this all calls fail with EIO. */
    void refuseWrites() {
        refused = true;
    }
}
