package io.ppmr.linux;

/** Waits that continue when the thread is interrupted. A clean-up needs them, because it often follows an interrupt. */
public final class UninterruptedWait {
    private UninterruptedWait() {}

    /** A wait with its own deadline. */
    @FunctionalInterface
    public interface Waiting<T> {
        T once() throws InterruptedException;
    }

    /**
     * Waits, and waits again whenever the thread is interrupted. The thread's interrupt flag is set again afterwards.
     */
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
