package io.ppmr.fuse;

import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.os.LibC;
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
 * libfuse 2.9's function table, by jnr-fuse's bindings, and its mount. Registers exactly what {@link JnrFuseAdapter}
 * serves; libfuse answers ENOSYS to the rest, and the kernel then stops asking (extended attributes, locks, access).
 *
 * <p>jnr-fuse's own {@code mount} is not used: it adds a shutdown hook, and its non-blocking form takes a timeout for
 * success. Requests are taken by {@link FuseWorkers}, reads and writes served by {@link DataRequests}.
 */
final class LibFuseSession extends FuseStubFS {
    /** The flags word of struct fuse_operations (fuse.h of 2.9) stands between bmap and ioctl. */
    private static final int NULLPATH_OK = 1;

    private static final int UTIME_OMIT_OK = 4;
    private static final int POINTER_BYTES = 8;

    private static final int POLLFD_BYTES = 8;
    private static final int POLLFD_ANSWER_OFFSET = 6;
    private static final int POLLERR = 8;
    private static final int NOT_OPEN = -1;

    private final JnrFuseAdapter adapter;
    /** Of {@code /dev/fuse}. Guarded by this. */
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
     * Mounts and serves until the mount is gone and all calls have come back. Blocks the calling thread.
     *
     * @param name of the threads that serve
     * @return false where libfuse refused to mount; its message is on standard error
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
        open(library.fuse_chan_fd(channel));
        DataRequests dataRequests = new DataRequests(adapter, library.fuse_chan_fd(channel));
        new FuseWorkers(
                        library,
                        dataRequests,
                        session.address(),
                        channel.address(),
                        library.fuse_chan_bufsize(channel),
                        name)
                .serve();
        open(NOT_OPEN);
        library.fuse_teardown(fuse, mountPoint.getPointer(0));
        return true;
    }

    private synchronized void open(int of) {
        descriptor = of;
    }

    /**
     * Asks the kernel whether the connection of this mount is alive. While it is, its device number is no other
     * mount's: the kernel gives the number of a connection that has ended to the next one at once. Any thread.
     */
    synchronized boolean isConnected() {
        if (descriptor == NOT_OPEN) {
            return false;
        }
        ByteBuffer asked = ByteBuffer.allocate(POLLFD_BYTES).order(ByteOrder.nativeOrder());
        asked.putInt(0, descriptor);
        int answers = LibC.CALLS.poll(asked.array(), 1, 0);
        return answers == 0 || (answers > 0 && (asked.getShort(POLLFD_ANSWER_OFFSET) & POLLERR) == 0);
    }

    /** Returns who made the call that the current thread serves. */
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
