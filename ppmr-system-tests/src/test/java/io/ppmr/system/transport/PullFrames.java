package io.ppmr.system.transport;

import java.nio.ByteBuffer;

/**
 * The two frames between a {@link SocketPuller} and a {@link SocketExporter}, little-endian.
 *
 * <pre>
 *  request, T to S        0        8         16    24       28      32
 *                         +--------+---------+-----+--------+-------+
 *                         | pullId | address | key | length | magic |
 *                         |  u64   |   u64   | u64 |  u32   |  u32  |
 *                         +--------+---------+-----+--------+-------+
 *  answer, S to T         0        8        12       16
 *                         +--------+--------+--------+---------------
 *                         | pullId | status | length | the bytes
 *                         |  u64   |  u32   |  u32   |
 *                         +--------+--------+--------+---------------
 * </pre>
 */
final class PullFrames {
    static final int REQUEST_BYTES = 32;
    static final int ANSWER_BYTES = 16;
    static final int MAGIC = 0x4C4C5550; // "PULL"

    static final int OK = 0;
    static final int OUTSIDE = 1;

    private PullFrames() {}

    static void putRequest(ByteBuffer out, long pullId, long address, long key, int lengthBytes) {
        out.putLong(pullId).putLong(address).putLong(key).putInt(lengthBytes).putInt(MAGIC);
    }

    static void putAnswer(ByteBuffer out, long pullId, int status, int lengthBytes) {
        out.putLong(pullId).putInt(status).putInt(lengthBytes);
    }
}
