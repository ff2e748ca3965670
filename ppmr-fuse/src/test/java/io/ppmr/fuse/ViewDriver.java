package io.ppmr.fuse;

import com.kenai.jffi.MemoryIO;
import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.fuse.FilesystemView.Capacity;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Calls a view directly, in the order of the kernel for the same system call. */
public final class ViewDriver implements FilesystemDriver {
    private static final MemoryIO MEMORY = MemoryIO.getInstance();
    private static final CallingProcess CALLER = new CallingProcess(0, 0, 1);

    private final FilesystemView view;
    private final Map<Integer, Long> handles = new ConcurrentHashMap<>();
    private final AtomicInteger nextFile = new AtomicInteger(3);

    public ViewDriver(FilesystemView view) {
        this.view = view;
    }

    private interface Call<T> {
        T run() throws ErrnoException;
    }

    private interface Step {
        void run() throws ErrnoException;
    }

    private static <T> T get(Call<T> call) throws Failure {
        try {
            return call.run();
        } catch (ErrnoException e) {
            throw new Failure(e.errno().name(), e.getMessage());
        }
    }

    private static void run(Step step) throws Failure {
        get(() -> {
            step.run();
            return true;
        });
    }

    private static int result(int answer) throws Failure {
        if (answer >= 0) {
            return answer;
        }
        for (Errno errno : Errno.values()) {
            if (errno.negated() == answer) {
                throw new Failure(errno.name(), "answered by the view");
            }
        }
        throw new Failure("errno " + -answer, "answered by the view");
    }

    @Override
    public int open(String path, String how) throws IOException {
        boolean writes = how.indexOf('w') >= 0;
        int bits = writes ? (how.indexOf('r') >= 0 ? 2 : 1) : 0;
        boolean exists = true;
        try {
            stat(path);
        } catch (Failure e) {
            exists = false;
            if (how.indexOf('c') < 0) {
                throw e;
            }
        }
        if (exists && how.indexOf('x') >= 0) {
            throw new Failure("EEXIST", path + " exists");
        }
        if (exists && how.indexOf('t') >= 0) {
            run(() -> view.truncate(path, 0));
        }
        OpenFlags flags = new OpenFlags(bits);
        boolean present = exists;
        long handle = get(() -> present ? view.open(path, flags, CALLER) : view.create(path, flags, 0644, CALLER));
        int file = nextFile.getAndIncrement();
        handles.put(file, handle);
        return file;
    }

    @Override
    public void close(int file) throws IOException {
        long handle = handles.remove(file);
        run(() -> view.flush(handle));
        view.release(handle);
    }

    @Override
    public int write(int file, byte[] data, long offset) throws IOException {
        long address = MEMORY.allocateMemory(Math.max(1, data.length), false);
        try {
            MEMORY.putByteArray(address, data, 0, data.length);
            return result(view.write(handles.get(file), address, data.length, offset));
        } finally {
            MEMORY.freeMemory(address);
        }
    }

    @Override
    public byte[] read(int file, int length, long offset) throws IOException {
        long address = MEMORY.allocateMemory(Math.max(1, length), false);
        try {
            byte[] data = new byte[result(view.read(handles.get(file), address, length, offset))];
            MEMORY.getByteArray(address, data, 0, data.length);
            return data;
        } finally {
            MEMORY.freeMemory(address);
        }
    }

    @Override
    public void fsync(int file) throws IOException {
        run(() -> view.fsync(handles.get(file)));
    }

    @Override
    public long size(int file) throws IOException {
        return get(() -> view.attributes(handles.get(file))).sizeBytes();
    }

    @Override
    public void truncate(int file, long sizeBytes) throws IOException {
        run(() -> view.truncate(handles.get(file), sizeBytes));
    }

    @Override
    public Stat stat(String path) throws IOException {
        FileAttributes found = get(() -> view.attributes(path));
        return new Stat(found.mode(), found.uid(), found.sizeBytes(), found.modifiedEpochNs() / 1_000_000_000L);
    }

    @Override
    public List<String> list(String path) throws IOException {
        return get(() -> view.list(path));
    }

    @Override
    public void makeDirectory(String path) throws IOException {
        run(() -> view.makeDirectory(path, 0755, CALLER));
    }

    @Override
    public void delete(String path) throws IOException {
        boolean directory = (stat(path).mode() & FileType.MASK) == FileType.DIRECTORY;
        run(() -> {
            if (directory) {
                view.removeDirectory(path);
            } else {
                view.unlink(path);
            }
        });
    }

    @Override
    public void rename(String from, String to) throws IOException {
        run(() -> view.rename(from, to));
    }

    @Override
    public void symlink(String target, String path) throws IOException {
        run(() -> view.symlink(target, path, CALLER));
    }

    @Override
    public String readLink(String path) throws IOException {
        return get(() -> view.readLink(path));
    }

    @Override
    public void changeMode(String path, int permissions) throws IOException {
        run(() -> view.changeMode(path, permissions));
    }

    @Override
    public void changeModificationTime(String path, long epochS) throws IOException {
        run(() -> view.changeModificationTime(path, epochS * 1_000_000_000L));
    }

    @Override
    public long capacityBytes() {
        Capacity capacity = view.capacity();
        return capacity.blocks() * capacity.blockBytes();
    }

    @Override
    public void close() {
        handles.values().forEach(view::release);
        handles.clear();
    }
}
