package io.ppmr.source.image;

/**
 * Counts the time in which no call of a job's checkpoints to their files is running. In this time the migration does
 * not delay the checkpoints. A call that waits for the pool, the network or the target is running while it waits.
 * Created for an attempt, for all its sessions. Any thread.
 */
public final class WriterActivity {
    private int underWay;
    private long idleSinceNs = System.nanoTime();
    private long idleNs;

    /** Counts the beginning of a call. */
    synchronized void begin() {
        if (underWay == 0) {
            idleNs += System.nanoTime() - idleSinceNs;
        }
        underWay++;
    }

    /** Counts the end of a call. */
    synchronized void end() {
        underWay--;
        if (underWay == 0) {
            idleSinceNs = System.nanoTime();
        }
    }

    /** Returns the total time without a running call since this object was created, in nanoseconds. */
    public synchronized long idleNs() {
        return underWay == 0 ? idleNs + System.nanoTime() - idleSinceNs : idleNs;
    }
}
