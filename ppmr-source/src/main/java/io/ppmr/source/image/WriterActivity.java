package io.ppmr.source.image;

/**
 * Counts the time in which a job's checkpoints have no call into their files under way: they could write then, and
 * nothing of the migration holds them up. A call that waits for the pool, the network or the target is under way as
 * long as it waits. Made for an attempt, for all its sessions. Any thread.
 */
public final class WriterActivity {
    private int underWay;
    private long idleSinceNs = System.nanoTime();
    private long idleNs;

    /** A call begins. */
    synchronized void begin() {
        if (underWay == 0) {
            idleNs += System.nanoTime() - idleSinceNs;
        }
        underWay++;
    }

    /** A call has ended. */
    synchronized void end() {
        underWay--;
        if (underWay == 0) {
            idleSinceNs = System.nanoTime();
        }
    }

    /** Returns for how long no call was under way since this was made, in nanoseconds. */
    public synchronized long idleNs() {
        return underWay == 0 ? idleNs + System.nanoTime() - idleSinceNs : idleNs;
    }
}
