package io.ppmr.transport;

import java.util.concurrent.atomic.LongAdder;

/**
 * Counts the traffic and the losses of a rail while its service runs, and has its state. Any thread. Counting allocates
 * nothing.
 */
public final class RailFigures {
    private final String name;
    private final LongAdder arrivedBytes = new LongAdder();
    private final LongAdder arrivedChunks = new LongAdder();
    private final LongAdder losses = new LongAdder();
    private final LongAdder retransmittedChunks = new LongAdder();
    private final LongAdder controlConnections = new LongAdder();
    private final LongAdder controlFailovers = new LongAdder();
    private volatile String state = "not connected";

    /** @param name the rail's name */
    public RailFigures(String name) {
        this.name = name;
    }

    public String name() {
        return name;
    }

    /** Bytes that arrived at the target on this rail. */
    public long arrivedBytes() {
        return arrivedBytes.sum();
    }

    /** Chunks that arrived at the target on this rail. */
    public long arrivedChunks() {
        return arrivedChunks.sum();
    }

    /** Losses of this rail during a migration. */
    public long losses() {
        return losses.sum();
    }

    /** Chunks that were sent again after this rail failed. */
    public long retransmittedChunks() {
        return retransmittedChunks.sum();
    }

    /** Current sessions whose control connection uses this rail. */
    public long controlConnections() {
        return controlConnections.sum();
    }

    /** Counts the control connections that resumed on this rail, because the previous connection failed. */
    public long controlFailovers() {
        return controlFailovers.sum();
    }

    /** Returns the present state, or the state at the end of the last migration, as text. */
    public String state() {
        return state;
    }

    /** Returns whether anything was counted. */
    boolean wasUsed() {
        return arrivedChunks.sum() > 0
                || losses.sum() > 0
                || controlConnections.sum() > 0
                || controlFailovers.sum() > 0;
    }

    /** Returns all figures as short text. */
    @Override
    public String toString() {
        return name + " " + state + (controlConnections() > 0 ? ", used by the control connection, " : ", ")
                + arrivedBytes.sum()
                + " bytes, lost " + losses.sum() + " times, " + retransmittedChunks.sum() + " chunks retransmitted"
                + (controlFailovers() > 0
                        ? ", " + controlFailovers() + " failovers of the control connection to it"
                        : "");
    }

    /** Counts a control connection that begins on this rail. */
    public void addControlConnection() {
        controlConnections.increment();
    }

    /** Counts a control connection that resumed on this rail. */
    public void addControlFailover() {
        controlConnections.increment();
        controlFailovers.increment();
    }

    /** Counts the end of a control connection on this rail. */
    public void removeControlConnection() {
        controlConnections.decrement();
    }

    void addArrived(int lengthBytes) {
        arrivedBytes.add(lengthBytes);
        arrivedChunks.increment();
    }

    void addLoss(int unconfirmedChunks) {
        losses.increment();
        retransmittedChunks.add(unconfirmedChunks);
    }

    void setState(String now) {
        state = now;
    }
}
