package io.ppmr.transport;

import java.util.concurrent.atomic.LongAdder;

/**
 * Counts what a rail has done over the life of its service, and says how it is. Any thread; counting allocates nothing.
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

    /** @param name of the rail */
    public RailFigures(String name) {
        this.name = name;
    }

    public String name() {
        return name;
    }

    /** Bytes that it has brought to the target. */
    public long arrivedBytes() {
        return arrivedBytes.sum();
    }

    /** Chunks that it has brought to the target. */
    public long arrivedChunks() {
        return arrivedChunks.sum();
    }

    /** Losses of it in the middle of a migration. */
    public long losses() {
        return losses.sum();
    }

    /** Chunks that it had not brought when it failed, so that they went again. */
    public long retransmittedChunks() {
        return retransmittedChunks.sum();
    }

    /** Control connections of sessions under way that go by it now. */
    public long controlConnections() {
        return controlConnections.sum();
    }

    /** Counts the control connections that continued by this rail, because nothing came by the one before. */
    public long controlFailovers() {
        return controlFailovers.sum();
    }

    /** Returns how it is, or was at the end of the last migration. For people. */
    public String state() {
        return state;
    }

    /** Returns whether anything has happened to it. */
    boolean wasUsed() {
        return arrivedChunks.sum() > 0
                || losses.sum() > 0
                || controlConnections.sum() > 0
                || controlFailovers.sum() > 0;
    }

    /** All of it in a few words, for people. */
    @Override
    public String toString() {
        return name + " " + state + (controlConnections() > 0 ? ", carries the control connection, " : ", ")
                + arrivedBytes.sum()
                + " bytes, lost " + losses.sum() + " times, " + retransmittedChunks.sum() + " chunks sent again"
                + (controlFailovers() > 0 ? ", took the control connection over " + controlFailovers() + " times" : "");
    }

    /** A session's control connection goes by it. */
    public void controlBegins() {
        controlConnections.increment();
    }

    /** A control connection continues by it. */
    public void controlFailedOver() {
        controlConnections.increment();
        controlFailovers.increment();
    }

    /** It goes by it no longer. */
    public void controlEnds() {
        controlConnections.decrement();
    }

    void arrived(int lengthBytes) {
        arrivedBytes.add(lengthBytes);
        arrivedChunks.increment();
    }

    void lost(int unconfirmedChunks) {
        losses.increment();
        retransmittedChunks.add(unconfirmedChunks);
    }

    void setState(String now) {
        state = now;
    }
}
