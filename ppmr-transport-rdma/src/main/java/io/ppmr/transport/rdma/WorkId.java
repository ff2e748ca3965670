package io.ppmr.transport.rdma;

/**
 * The number of a work request, which its completion returns. In a failed completion only this number and the status
 * are valid (ibv_poll_cq(3)), so the number also contains the kind of the request.
 *
 * <pre>
 *  63     56 55                 16 15       0
 *  +--------+---------------------+----------+
 *  |  kind  | generation of entry |  entry   |
 *  +--------+---------------------+----------+
 * </pre>
 */
final class WorkId {
    /** A read of a chunk. */
    static final int PULL = 1;
    /** The read that proves the peer's identity. */
    static final int PROOF = 2;

    /** The write of a chunk, whose immediate data notifies the target. */
    static final int CHUNK = 3;
    /** The write of a chunk's frame, which has a completion only if it fails. */
    static final int FRAME = 4;
    /** A receive for the notification that a chunk was written. */
    static final int ARRIVAL = 5;
    /** A message with releases to the source. */
    static final int RELEASES_OUT = 6;
    /** A receive for such a message. */
    static final int RELEASES_IN = 7;

    private static final int KIND_SHIFT = 56;
    private static final int GENERATION_SHIFT = 16;
    private static final long GENERATION_MASK = (1L << (KIND_SHIFT - GENERATION_SHIFT)) - 1;
    private static final long ENTRY_MASK = 0xFFFF;

    private WorkId() {}

    static long of(int kind, long generation, int entry) {
        return (long) kind << KIND_SHIFT | (generation & GENERATION_MASK) << GENERATION_SHIFT | (entry & ENTRY_MASK);
    }

    static int kind(long workId) {
        return (int) (workId >>> KIND_SHIFT);
    }

    static int entry(long workId) {
        return (int) (workId & ENTRY_MASK);
    }
}
