package io.ppmr.fuse;

import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.fuse.FilesystemView.Capacity;
import io.ppmr.linux.RareLog;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import jnr.ffi.provider.jffi.ClosureHelper;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import ru.serce.jnrfuse.FuseFillDir;
import ru.serce.jnrfuse.struct.FileStat;
import ru.serce.jnrfuse.struct.FuseFileInfo;
import ru.serce.jnrfuse.struct.Statvfs;
import ru.serce.jnrfuse.struct.Timespec;

/**
 * Maps each FUSE call to one call of the view, and its failure to an errno. Many {@link FuseWorkers} call it at once.
 * It keeps no state between calls, because these threads change. A blocked call occupies one worker, so only the view
 * may block, never this class.
 */
final class JnrFuseAdapter {
    private static final Logger LOG = LoggerFactory.getLogger(JnrFuseAdapter.class);
    /** A user who may enter a mount can cause any number of refusals. */
    private static final RareLog REFUSALS = new RareLog(LOG::warn);

    private static final FuseFileInfo FILE_INFO = FuseFileInfo.of(Pointer.wrap(Runtime.getSystemRuntime(), 0L));
    private static final long HANDLE_OFFSET = FILE_INFO.fh.offset();
    private static final long FLAGS_OFFSET = FILE_INFO.flags.offset();
    private static final int PERMISSION_BITS = 07777;
    private static final int CREATE_EXCLUSIVELY = 0x1 | 0x40 | 0x80;
    private static final int PREFERRED_IO_BYTES = 128 * 1024;
    private static final int STAT_BLOCK_BYTES = 512;
    private static final int NAME_BYTES_MAX = 255;
    private static final long NS_PER_S = 1_000_000_000L;
    /** utimensat(2): the time of the second timespec is the modification time. */
    private static final int MODIFIED_SECONDS_OFFSET = 16;

    private static final int MODIFIED_NS_OFFSET = 24;
    private static final long UTIME_NOW = (1L << 30) - 1;
    private static final long UTIME_OMIT = (1L << 30) - 2;

    /** Set to the memory of each call, because creating an object takes longer than the call. */
    private static final ThreadLocal<FileStat> STAT =
            ThreadLocal.withInitial(() -> FileStat.of(Pointer.wrap(Runtime.getSystemRuntime(), 0L)));

    private final FilesystemView view;
    private final String probePath;
    private final CountDownLatch probed = new CountDownLatch(1);
    private Supplier<CallingProcess> callers;

    /** {@code probeName} is a name in the root that no other process uses: a lookup of it proves the mount. */
    JnrFuseAdapter(FilesystemView view, String probeName) {
        this.view = view;
        this.probePath = "/" + probeName;
    }

    /** Set once, before the first call. */
    void setCallers(Supplier<CallingProcess> source) {
        callers = source;
    }

    boolean awaitProbe(long timeoutNs) throws InterruptedException {
        return probed.await(timeoutNs, TimeUnit.NANOSECONDS);
    }

    private interface Call {
        void run() throws ErrnoException;
    }

    private static int execute(String name, String subject, Call call) {
        try {
            // jnr replaces bytes that the JVM's charset cannot represent, so two names would become one.
            if (subject != null && subject.indexOf('\uFFFD') >= 0) {
                throw new ErrnoException(
                        Errno.EINVAL,
                        "the name cannot be represented in this JVM's charset; use UTF-8"
                                + " names and start the JVM with -Dfile.encoding=UTF-8");
            }
            call.run();
            return 0;
        } catch (Throwable failure) {
            return errno(name, subject, failure);
        }
    }

    /** Converts each failed call to a negated errno, and logs the reason. */
    static int errno(String call, String subject, Throwable failure) {
        if (failure instanceof ErrnoException refused) {
            // A missing name is an ordinary result: checkpointers look up a dozen of them.
            if (refused.errno() == Errno.ENOENT) {
                LOG.debug("{} {}: {}", call, subject, refused.getMessage());
            } else {
                REFUSALS.write(call + refused.errno(), call + " " + subject + ": " + refused.getMessage());
            }
            return refused.errno().negated();
        }
        LOG.error("{} {}: returned EIO because of an unexpected error", call, subject, failure);
        return Errno.EIO.negated();
    }

    private static long handleOf(Pointer fileInfo) {
        return fileInfo.getLong(HANDLE_OFFSET);
    }

    private static String subject(Pointer fileInfo) {
        return "handle " + handleOf(fileInfo);
    }

    // Data calls: plain numbers, without allocation.

    int read(long handle, long address, int lengthBytes, long offset) {
        try {
            return view.read(handle, address, lengthBytes, offset);
        } catch (Throwable failure) {
            return errno("read", "handle " + handle + " at " + offset, failure);
        }
    }

    int write(long handle, long address, int lengthBytes, long offset) {
        try {
            return view.write(handle, address, lengthBytes, offset);
        } catch (Throwable failure) {
            return errno("write", "handle " + handle + " at " + offset, failure);
        }
    }

    // Calls by name.

    int attributes(String path, Pointer stat) {
        return execute("getattr", path, () -> {
            if (probePath.equals(path)) {
                probed.countDown();
                throw new ErrnoException(Errno.ENOENT, "the mount's probe");
            }
            fill(stat, view.attributes(path));
        });
    }

    int readLink(String path, Pointer buffer, long bufferBytes) {
        return execute("readlink", path, () -> {
            byte[] text = view.readLink(path).getBytes(StandardCharsets.UTF_8);
            int length = (int) Math.min(text.length, bufferBytes - 1);
            buffer.put(0, text, 0, length);
            buffer.putByte(length, (byte) 0);
        });
    }

    int list(String path, Pointer buffer, Pointer filler, long offset, Pointer fileInfo) {
        return execute("readdir", path, () -> {
            if (path == null) {
                throw new ErrnoException(Errno.ENOENT, "the directory was removed");
            }
            FuseFillDir fill = fillerOf(filler);
            List<String> names = view.list(path);
            add(fill, buffer, ".");
            add(fill, buffer, "..");
            for (String name : names) {
                add(fill, buffer, name);
            }
        });
    }

    private static FuseFillDir fillerOf(Pointer filler) {
        ClosureHelper closures = ClosureHelper.getInstance();
        return closures.getNativeConveter(FuseFillDir.class).fromNative(filler, closures.getFromNativeContext());
    }

    private static void add(FuseFillDir fill, Pointer buffer, String name) throws ErrnoException {
        byte[] text = name.getBytes(StandardCharsets.UTF_8);
        ByteBuffer terminated = ByteBuffer.wrap(Arrays.copyOf(text, text.length + 1));
        if (fill.apply(buffer, terminated, null, 0) != 0) {
            throw new ErrnoException(Errno.ENOMEM, "libfuse has no space for the name " + name);
        }
    }

    int makeNode(String path, long mode, long device) {
        return execute("mknod", path, () -> {
            if ((mode & FileType.MASK) != FileType.REGULAR) {
                throw new ErrnoException(
                        Errno.EPERM, "only regular files can be created here, not mode 0" + Long.toOctalString(mode));
            }
            long handle = view.create(path, new OpenFlags(CREATE_EXCLUSIVELY), permissions(mode), callers.get());
            view.release(handle);
        });
    }

    int makeDirectory(String path, long mode) {
        return execute("mkdir", path, () -> view.makeDirectory(path, permissions(mode), callers.get()));
    }

    int removeDirectory(String path) {
        return execute("rmdir", path, () -> view.removeDirectory(path));
    }

    int unlink(String path) {
        return execute("unlink", path, () -> view.unlink(path));
    }

    int symlink(String target, String path) {
        return execute("symlink", path, () -> view.symlink(target, path, callers.get()));
    }

    int rename(String from, String to) {
        return execute("rename", to, () -> view.rename(from, to));
    }

    int link(String from, String to) {
        return execute("link", to, () -> {
            throw new ErrnoException(Errno.EPERM, "hard links are not supported; " + from + " keeps its only name");
        });
    }

    int changeMode(String path, long mode) {
        return execute("chmod", path, () -> view.changeMode(path, permissions(mode)));
    }

    int changeOwner(String path, long uid, long gid) {
        return execute("chown", path, () -> view.changeOwner(path, (int) uid, (int) gid));
    }

    int truncate(String path, long sizeBytes) {
        return execute("truncate", path, () -> view.truncate(path, sizeBytes));
    }

    int changeTimes(String path, Pointer times) {
        return execute("utimens", path, () -> {
            long nanoseconds = times.getLong(MODIFIED_NS_OFFSET);
            if (nanoseconds == UTIME_OMIT) {
                return;
            }
            view.changeModificationTime(
                    path,
                    nanoseconds == UTIME_NOW
                            ? TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis())
                            : times.getLong(MODIFIED_SECONDS_OFFSET) * NS_PER_S + nanoseconds);
        });
    }

    int capacity(String path, Pointer buffer) {
        return execute("statfs", path, () -> {
            Capacity capacity = view.capacity();
            Statvfs statvfs = Statvfs.of(buffer);
            statvfs.f_bsize.set(capacity.blockBytes());
            statvfs.f_frsize.set(capacity.blockBytes());
            statvfs.f_blocks.set(capacity.blocks());
            statvfs.f_bfree.set(capacity.freeBlocks());
            statvfs.f_bavail.set(capacity.freeBlocks());
            statvfs.f_files.set(capacity.files());
            statvfs.f_namemax.set(NAME_BYTES_MAX);
        });
    }

    // Calls by handle.

    int open(String path, Pointer fileInfo) {
        return execute("open", path, () -> {
            OpenFlags flags = new OpenFlags(fileInfo.getInt(FLAGS_OFFSET));
            fileInfo.putLong(HANDLE_OFFSET, view.open(path, flags, callers.get()));
        });
    }

    int create(String path, long mode, Pointer fileInfo) {
        return execute("create", path, () -> {
            OpenFlags flags = new OpenFlags(fileInfo.getInt(FLAGS_OFFSET));
            fileInfo.putLong(HANDLE_OFFSET, view.create(path, flags, permissions(mode), callers.get()));
        });
    }

    int attributesOfHandle(String path, Pointer stat, Pointer fileInfo) {
        return execute("fgetattr", subject(fileInfo), () -> fill(stat, view.attributes(handleOf(fileInfo))));
    }

    int truncateHandle(String path, long sizeBytes, Pointer fileInfo) {
        return execute("ftruncate", subject(fileInfo), () -> view.truncate(handleOf(fileInfo), sizeBytes));
    }

    int allocate(String path, int mode, long offset, long lengthBytes, Pointer fileInfo) {
        return execute(
                "fallocate", subject(fileInfo), () -> view.allocate(handleOf(fileInfo), mode, offset, lengthBytes));
    }

    int flush(String path, Pointer fileInfo) {
        return execute("flush", subject(fileInfo), () -> view.flush(handleOf(fileInfo)));
    }

    int fsync(String path, int dataOnly, Pointer fileInfo) {
        return execute("fsync", subject(fileInfo), () -> view.fsync(handleOf(fileInfo)));
    }

    int release(String path, Pointer fileInfo) {
        return execute("release", subject(fileInfo), () -> view.release(handleOf(fileInfo)));
    }

    private static int permissions(long mode) {
        return (int) mode & PERMISSION_BITS;
    }

    private static void fill(Pointer buffer, FileAttributes attributes) {
        FileStat stat = STAT.get();
        stat.useMemory(buffer);
        stat.st_ino.set(attributes.inode());
        stat.st_mode.set(attributes.mode());
        stat.st_nlink.set(attributes.links());
        stat.st_uid.set(attributes.uid());
        stat.st_gid.set(attributes.gid());
        stat.st_size.set(attributes.sizeBytes());
        stat.st_blksize.set(PREFERRED_IO_BYTES);
        stat.st_blocks.set((attributes.sizeBytes() + STAT_BLOCK_BYTES - 1) / STAT_BLOCK_BYTES);
        long seconds = Math.floorDiv(attributes.modifiedEpochNs(), NS_PER_S);
        long nanoseconds = Math.floorMod(attributes.modifiedEpochNs(), NS_PER_S);
        fill(stat.st_atim, seconds, nanoseconds);
        fill(stat.st_mtim, seconds, nanoseconds);
        fill(stat.st_ctim, seconds, nanoseconds);
    }

    private static void fill(Timespec time, long seconds, long nanoseconds) {
        time.tv_sec.set(seconds);
        time.tv_nsec.set(nanoseconds);
    }
}
