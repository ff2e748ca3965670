package io.ppmr.fuse;

import com.kenai.jffi.MemoryIO;
import io.ppmr.linux.LibC;
import io.ppmr.linux.RareLog;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Serves the kernel's READ and WRITE requests without libfuse. A request needs no lookup of the path, no allocation,
 * no call from native code into Java, and no heap. The layouts are those of {@code include/uapi/linux/fuse.h} from
 * protocol 7.9 on, which every kernel uses with libfuse 2.9.
 *
 * <pre>
 *  request   0      4        8        16       24    28    32    36    40       48       56     60
 *            +------+--------+--------+--------+-----+-----+-----+-----+--------+--------+------+-----
 *            | len  | opcode | unique | nodeid | uid | gid | pid | pad |   fh   | offset | size | ...   bytes at 80
 *            +------+--------+--------+--------+-----+-----+-----+-----+--------+--------+------+-----
 *  answer    0      4        8        16
 *            +------+--------+--------+-------------------------------
 *            | len  | -errno | unique | bytes read, or size written u32
 *            +------+--------+--------+-------------------------------
 * </pre>
 *
 * <p>Any worker calls it with its own request. The bytes of a read replace the request in memory, which is larger than
 * any read.
 */
final class DataRequests {
    private static final Logger LOG = LoggerFactory.getLogger(DataRequests.class);
    private static final MemoryIO MEMORY = MemoryIO.getInstance();
    private static final LibC LIBRARY = LibC.CALLS;

    private static final int FORGET = 2;
    private static final int READ = 15;
    private static final int WRITE = 16;
    private static final int RELEASE = 18;
    private static final int INIT = 26;
    private static final int RELEASE_DIRECTORY = 29;
    private static final int INTERRUPT = 36;
    private static final int DESTROY = 38;
    private static final int BATCH_FORGET = 42;

    private static final int OPCODE_OFFSET = 4;
    private static final int UNIQUE_OFFSET = 8;
    private static final int CALLER_OFFSET = 24;
    private static final int HANDLE_OFFSET = 40;
    private static final int POSITION_OFFSET = 48;
    private static final int SIZE_OFFSET = 56;
    private static final int WRITTEN_DATA_OFFSET = 80;

    private static final int ANSWER_ERROR_OFFSET = 4;
    private static final int ANSWER_DATA_OFFSET = 16;
    private static final int WRITE_ANSWER_BYTES = 8;

    private final RareLog refusals = new RareLog(LOG::warn);
    private final JnrFuseAdapter adapter;
    private final int descriptor;

    /** {@code descriptor} is the mount's descriptor of {@code /dev/fuse}. */
    DataRequests(JnrFuseAdapter adapter, int descriptor) {
        this.adapter = adapter;
        this.descriptor = descriptor;
    }

    /** Returns the user of the process that made the request at this address. */
    int caller(long request) {
        return MEMORY.getInt(request + CALLER_OFFSET);
    }

    /**
     * Returns true if the call may be refused. Calls without an answer, or that release a resource, must not be
     * refused.
     */
    boolean mayWait(long request) {
        return switch (MEMORY.getInt(request + OPCODE_OFFSET)) {
            case FORGET, BATCH_FORGET, RELEASE, RELEASE_DIRECTORY, INTERRUPT, INIT, DESTROY -> false;
            default -> true;
        };
    }

    /** Refuses a call because its user has the maximum number of waiting calls. */
    void refuse(long request) {
        refusals.write(
                "share",
                "user " + Integer.toUnsignedString(caller(request)) + " has too many calls waiting in a mount:"
                        + " further one is refused (EAGAIN): at most " + WorkerShares.OF_A_USER + " of a user, "
                        + WorkerShares.OF_USERS + " of all users except root");
        answer(request, MEMORY.getLong(request + UNIQUE_OFFSET), Errno.EAGAIN.negated(), 0);
    }

    /** Serves the request at this address if it is a data request; returns whether it was. */
    boolean serve(long request) {
        switch (MEMORY.getInt(request + OPCODE_OFFSET)) {
            case READ -> read(request);
            case WRITE -> write(request);
            case INTERRUPT -> LOG.trace("a client was interrupted; its call ends with the view's answer");
            default -> {
                return false;
            }
        }
        return true;
    }

    private void read(long request) {
        long unique = MEMORY.getLong(request + UNIQUE_OFFSET);
        int read = adapter.read(
                MEMORY.getLong(request + HANDLE_OFFSET),
                request + ANSWER_DATA_OFFSET,
                MEMORY.getInt(request + SIZE_OFFSET),
                MEMORY.getLong(request + POSITION_OFFSET));
        answer(request, unique, read, Math.max(read, 0));
    }

    private void write(long request) {
        long unique = MEMORY.getLong(request + UNIQUE_OFFSET);
        int written = adapter.write(
                MEMORY.getLong(request + HANDLE_OFFSET),
                request + WRITTEN_DATA_OFFSET,
                MEMORY.getInt(request + SIZE_OFFSET),
                MEMORY.getLong(request + POSITION_OFFSET));
        MEMORY.putLong(request + ANSWER_DATA_OFFSET, Math.max(written, 0));
        answer(request, unique, written, WRITE_ANSWER_BYTES);
    }

    private void answer(long address, long unique, int result, int dataBytes) {
        int lengthBytes = ANSWER_DATA_OFFSET + (result < 0 ? 0 : dataBytes);
        MEMORY.putInt(address, lengthBytes);
        MEMORY.putInt(address + ANSWER_ERROR_OFFSET, Math.min(result, 0));
        MEMORY.putLong(address + UNIQUE_OFFSET, unique);
        if (LIBRARY.write(descriptor, address, lengthBytes) < 0) {
            // ENOENT: the calling process was killed in the meantime. ENODEV: the mount was removed. No process waits
            // for this answer.
            LOG.debug("the kernel did not accept an answer of {} bytes: errno {}", lengthBytes, LibC.errno());
        }
    }
}
