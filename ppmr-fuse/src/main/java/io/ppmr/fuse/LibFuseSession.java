package io.ppmr.fuse;

import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.linux.LibC;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import jnr.ffi.Struct;
import ru.serce.jnrfuse.FuseStubFS;
import ru.serce.jnrfuse.struct.FuseContext;
import ru.serce.jnrfuse.struct.FuseOperations;

/**
 * libfuse 2.9's function table, through jnr-fuse's bindings, and its mount. Registers exactly the functions of {@link
 * JnrFuseAdapter}. libfuse returns ENOSYS for all others, and the kernel then stops calling them (extended attributes,
 * locks, access).
 *
 * <p>jnr-fuse's own {@code mount} is not used: it adds a shutdown hook, and its non-blocking form counts a time-out as
 * success. {@link FuseWorkers} receives requests, and {@link DataRequests} serves reads and writes.
 */
final class LibFuseSession extends FuseStubFS {
    /** The flags of struct fuse_operations (fuse.h of 2.9) are between bmap and ioctl. */
    private static final int NULLPATH_OK = 1;

    private static final int UTIME_OMIT_OK = 4;
    private static final int POINTER_BYTES = 8;

    private static final int POLLFD_BYTES = 8;
    private static final int POLLFD_ANSWER_OFFSET = 6;
    private static final int POLLERR = 8;
    private static final int NOT_OPEN = -1;

    /** Guards libfuse's variable of the last session. */
    private static final Object TEARDOWN = new Object();

    private final JnrFuseAdapter adapter;
    /** The descriptor of {@code /dev/fuse}. Guarded by this. */
    private int descriptor = NOT_OPEN;

    LibFuseSession(JnrFuseAdapter adapter) {
        this.adapter = adapter;
        FuseOperations operations = fuseOperations;
        bindNames(operations, adapter);
        bindHandles(operations, adapter);
        long flagsOffset = operations.bmap.offset() + POINTER_BYTES;
        Struct.getMemory(operations).putInt(flagsOffset, NULLPATH_OK | UTIME_OMIT_OK);
    }

    /**
     * Mounts and serves until the mount is removed and all calls returned. Blocks the calling thread.
     *
     * @param name the name of the serving threads
     * @return false if libfuse refused to mount; its message is on standard error
     */
    boolean serve(String name, String... arguments) throws InterruptedException {
        LibFuse29 library = LibFuse29.load();
        Runtime runtime = Runtime.getSystemRuntime();
        Pointer mountPoint = Memory.allocateDirect(runtime, POINTER_BYTES, true);
        Pointer multithreaded = Memory.allocateDirect(runtime, POINTER_BYTES, true);
        Pointer fuse = library.fuse_setup(
                arguments.length,
                arguments,
                Struct.getMemory(fuseOperations),
                Struct.size(fuseOperations),
                mountPoint,
                multithreaded,
                null);
        if (fuse == null) {
            return false;
        }
        Pointer session = library.fuse_get_session(fuse);
        Pointer channel = library.fuse_session_next_chan(session, null);
        setDescriptor(library.fuse_chan_fd(channel));
        DataRequests dataRequests = new DataRequests(adapter, library.fuse_chan_fd(channel));
        new FuseWorkers(
                        library,
                        dataRequests,
                        session.address(),
                        channel.address(),
                        library.fuse_chan_bufsize(channel),
                        name)
                .serve();
        setDescriptor(NOT_OPEN);
        synchronized (TEARDOWN) {
            // libfuse knows one session alone. With several mounts it would complain about an unknown one on standard
            // error.
            library.fuse_set_signal_handlers(session);
            library.fuse_teardown(fuse, mountPoint.getPointer(0));
        }
        return true;
    }

    private synchronized void setDescriptor(int newDescriptor) {
        descriptor = newDescriptor;
    }

    /**
     * Queries the kernel whether this mount's connection exists. While it does, no other mount has its device number.
     * The kernel assigns the number of an ended connection to the next one at once. Any thread.
     */
    synchronized boolean isConnected() {
        if (descriptor == NOT_OPEN) {
            return false;
        }
        ByteBuffer poll = ByteBuffer.allocate(POLLFD_BYTES).order(ByteOrder.nativeOrder());
        poll.putInt(0, descriptor);
        int ready = LibC.CALLS.poll(poll.array(), 1, 0);
        return ready == 0 || (ready > 0 && (poll.getShort(POLLFD_ANSWER_OFFSET) & POLLERR) == 0);
    }

    /** Returns the process that made the call that the current thread serves. */
    CallingProcess caller() {
        FuseContext context = getContext();
        return new CallingProcess(context.uid.intValue(), context.gid.intValue(), context.pid.intValue());
    }

    private static void bindNames(FuseOperations operations, JnrFuseAdapter adapter) {
        operations.getattr.set(adapter::attributes);
        operations.readlink.set(adapter::readLink);
        operations.readdir.set(adapter::list);
        operations.mknod.set(adapter::makeNode);
        operations.mkdir.set(adapter::makeDirectory);
        operations.unlink.set(adapter::unlink);
        operations.rmdir.set(adapter::removeDirectory);
        operations.symlink.set(adapter::symlink);
        operations.rename.set(adapter::rename);
        operations.link.set(adapter::link);
        operations.chmod.set(adapter::changeMode);
        operations.chown.set(adapter::changeOwner);
        operations.truncate.set(adapter::truncate);
        operations.utimens.set(adapter::changeTimes);
        operations.statfs.set(adapter::capacity);
    }

    private static void bindHandles(FuseOperations operations, JnrFuseAdapter adapter) {
        operations.open.set(adapter::open);
        operations.create.set(adapter::create);
        operations.fgetattr.set(adapter::attributesOfHandle);
        operations.ftruncate.set(adapter::truncateHandle);
        operations.fallocate.set(adapter::allocate);
        operations.flush.set(adapter::flush);
        operations.fsync.set(adapter::fsync);
        operations.release.set(adapter::release);
    }
}
