package io.ppmr.source.image;

import java.util.concurrent.atomic.AtomicReference;

/**
 * Knows whether the images that are written through one session are still wanted, and what becomes of writes when they
 * are not. Shared by all files of the session; any thread.
 *
 * <p>The first failure counts, and is for good: the image can never be whole afterwards. From then on the calls of a
 * checkpointer that runs beside the process fail with EIO, so that it ends soon. Those of one that writes from within
 * the process succeed and are thrown away, until {@link #refuse}: an error could end the process, which is the only
 * original.
 */
public final class ImageFate {
    private final boolean writesFromWithin;
    private final AtomicReference<String> failure = new AtomicReference<>();
    private volatile boolean refused;

    /** @param writesFromWithin whether the processes write their images themselves */
    public ImageFate(boolean writesFromWithin) {
        this.writesFromWithin = writesFromWithin;
    }

    /**
     * The images are not wanted any more.
     *
     * @return whether this is the first failure
     */
    boolean fail(String reason) {
        return failure.compareAndSet(null, reason);
    }

    /** Says why they are not wanted, or null while they are. */
    String failure() {
        return failure.get();
    }

    /** Returns true if calls succeed and what they write is thrown away. */
    boolean discards() {
        return writesFromWithin && !refused && failure.get() != null;
    }

    /** Returns true if failed calls are to be taken for good ones: then a failure makes {@link #discards} true. */
    boolean mayDiscard() {
        return writesFromWithin && !refused;
    }

    /** From now on calls fail with EIO, whoever makes them. */
    void refuse() {
        refused = true;
    }
}
