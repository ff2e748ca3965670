package io.ppmr.os;

/** Waits that an interrupt does not end, as those of a clean-up, which comes after an interrupt as likely as not. */
public final class UninterruptedWait {
    private UninterruptedWait() {}

    /** A wait with a deadline of its own. */
    @FunctionalInterface
    public interface Waiting<T> {
        T once() throws InterruptedException;
    }

    /** Waits, and begins again whenever the thread is interrupted; its flag is set again afterwards. */
    public static <T> T of(Waiting<T> waiting) {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return waiting.once();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
