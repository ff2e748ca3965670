package io.ppmr.fuse;

import com.kenai.jffi.MemoryIO;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * The reference view: a tree of names over sparse files in memory, guarded by one lock. {@link #hold} blocks opens or
 * reads of one name until {@link #unblock} or {@link #abort}. For tests; any thread.
 */
public class InMemoryView implements FilesystemView {
    private static final MemoryIO MEMORY = MemoryIO.getInstance();
    private static final int PAGE_BYTES = 128 * 1024;
    private static final long HELD_NS = TimeUnit.SECONDS.toNanos(60L * Integer.getInteger("ppmr.patience", 1));
    private static final int KEEP_SIZE = 1;
    private static final int PUNCH_HOLE = 2;

    /** The call that blocks on a held name. */
    public enum Held {
        OPEN,
        READ
    }

    private static final class Node {
        final long inode;
        final int type;
        final Map<Long, byte[]> pages = new HashMap<>();
        int permissions;
        int uid;
        int gid;
        long sizeBytes;
        long modifiedEpochNs = System.currentTimeMillis() * 1_000_000L;
        String target;

        Node(long inode, int type, int permissions, int uid, int gid) {
            this.inode = inode;
            this.type = type;
            this.permissions = permissions;
            this.uid = uid;
            this.gid = gid;
        }
    }

    private final TreeMap<String, Node> nodes = new TreeMap<>();
    private final Map<Long, Node> handles = new HashMap<>();
    private final Map<Node, Held> held = new HashMap<>();
    private final Set<Long> waiting = new HashSet<>();
    private long nextInode = 1;
    private long nextHandle = 1;
    private boolean aborted;

    public InMemoryView() {
        nodes.put("/", new Node(nextInode++, FileType.DIRECTORY, 0777, 0, 0));
    }

    public synchronized void hold(String path, Held what) throws ErrnoException {
        held.put(require(path), what);
    }

    public synchronized void unblock(String path) throws ErrnoException {
        held.remove(require(path));
        notifyAll();
    }

    /** The number of calls that are blocked on a held name. */
    public synchronized int waitingCalls() {
        return waiting.size();
    }

    public synchronized int openHandles() {
        return handles.size();
    }

    @Override
    public synchronized void abort() {
        aborted = true;
        notifyAll();
    }

    @Override
    public synchronized FileAttributes attributes(String path) throws ErrnoException {
        return attributes(require(path));
    }

    @Override
    public synchronized FileAttributes attributes(long handle) throws ErrnoException {
        return attributes(require(handle));
    }

    @Override
    public synchronized List<String> list(String path) throws ErrnoException {
        requireDirectory(path);
        String prefix = path.endsWith("/") ? path : path + "/";
        List<String> names = new ArrayList<>();
        for (String other : nodes.tailMap(prefix, false).keySet()) {
            if (!other.startsWith(prefix)) {
                break;
            }
            if (other.indexOf('/', prefix.length()) < 0) {
                names.add(other.substring(prefix.length()));
            }
        }
        return names;
    }

    @Override
    public synchronized String readLink(String path) throws ErrnoException {
        Node node = require(path);
        if (node.type != FileType.SYMLINK) {
            throw new ErrnoException(Errno.EINVAL, path + " is no symbolic link");
        }
        return node.target;
    }

    @Override
    public synchronized long open(String path, OpenFlags flags, CallingProcess caller) throws ErrnoException {
        Node node = require(path);
        if (!await(node, Held.OPEN)) {
            throw new ErrnoException(Errno.EIO, path + ": the view was aborted");
        }
        if (flags.truncates()) {
            resize(node, 0);
        }
        handles.put(nextHandle, node);
        return nextHandle++;
    }

    @Override
    public synchronized long create(String path, OpenFlags flags, int mode, CallingProcess caller)
            throws ErrnoException {
        if (nodes.containsKey(path)) {
            if (flags.exclusive()) {
                throw new ErrnoException(Errno.EEXIST, path + " exists");
            }
            return open(path, flags, caller);
        }
        handles.put(nextHandle, add(path, FileType.REGULAR, mode, caller));
        return nextHandle++;
    }

    @Override
    public synchronized int read(long handle, long address, int lengthBytes, long offset) {
        Node node = handles.get(handle);
        if (node == null) {
            return Errno.EBADF.negated();
        }
        if (!await(node, Held.READ)) {
            return Errno.EIO.negated();
        }
        int wanted = (int) Math.max(0, Math.min(lengthBytes, node.sizeBytes - offset));
        for (int done = 0; done < wanted; ) {
            long at = offset + done;
            int inPage = (int) (at % PAGE_BYTES);
            int now = Math.min(wanted - done, PAGE_BYTES - inPage);
            byte[] page = node.pages.get(at / PAGE_BYTES);
            if (page == null) {
                MEMORY.setMemory(address + done, now, (byte) 0);
            } else {
                MEMORY.putByteArray(address + done, page, inPage, now);
            }
            done += now;
        }
        return wanted;
    }

    @Override
    public synchronized int write(long handle, long address, int lengthBytes, long offset) {
        Node node = handles.get(handle);
        if (node == null) {
            return Errno.EBADF.negated();
        }
        for (int done = 0; done < lengthBytes; ) {
            long at = offset + done;
            int inPage = (int) (at % PAGE_BYTES);
            int now = Math.min(lengthBytes - done, PAGE_BYTES - inPage);
            byte[] page = node.pages.computeIfAbsent(at / PAGE_BYTES, none -> new byte[PAGE_BYTES]);
            MEMORY.getByteArray(address + done, page, inPage, now);
            done += now;
        }
        node.sizeBytes = Math.max(node.sizeBytes, offset + lengthBytes);
        return lengthBytes;
    }

    @Override
    public synchronized void flush(long handle) throws ErrnoException {
        require(handle);
    }

    @Override
    public synchronized void fsync(long handle) throws ErrnoException {
        require(handle);
    }

    @Override
    public synchronized void release(long handle) {
        if (handles.remove(handle) == null) {
            throw new IllegalStateException("handle " + handle + " was released before");
        }
    }

    @Override
    public synchronized void truncate(String path, long sizeBytes) throws ErrnoException {
        resize(require(path), sizeBytes);
    }

    @Override
    public synchronized void truncate(long handle, long sizeBytes) throws ErrnoException {
        resize(require(handle), sizeBytes);
    }

    @Override
    public synchronized void allocate(long handle, int mode, long offset, long lengthBytes) throws ErrnoException {
        Node node = require(handle);
        if ((mode & PUNCH_HOLE) != 0) {
            zero(node, offset, Math.min(offset + lengthBytes, node.sizeBytes));
        } else if ((mode & KEEP_SIZE) == 0) {
            node.sizeBytes = Math.max(node.sizeBytes, offset + lengthBytes);
        }
    }

    @Override
    public synchronized void makeDirectory(String path, int mode, CallingProcess caller) throws ErrnoException {
        add(path, FileType.DIRECTORY, mode, caller);
    }

    @Override
    public synchronized void removeDirectory(String path) throws ErrnoException {
        if (!list(path).isEmpty()) {
            throw new ErrnoException(Errno.ENOTEMPTY, path + " is not empty");
        }
        nodes.remove(path);
    }

    @Override
    public synchronized void symlink(String target, String path, CallingProcess caller) throws ErrnoException {
        add(path, FileType.SYMLINK, 0777, caller).target = target;
    }

    @Override
    public synchronized void rename(String from, String to) throws ErrnoException {
        Node node = require(from);
        requireDirectory(parentOf(to));
        Map<String, Node> moved = new HashMap<>();
        for (String name : new ArrayList<>(nodes.tailMap(from).keySet())) {
            if (name.equals(from) || name.startsWith(from + "/")) {
                moved.put(to + name.substring(from.length()), nodes.remove(name));
            }
        }
        nodes.putAll(moved);
        nodes.put(to, node);
    }

    @Override
    public synchronized void unlink(String path) throws ErrnoException {
        if (require(path).type == FileType.DIRECTORY) {
            throw new ErrnoException(Errno.EISDIR, path + " is a directory");
        }
        nodes.remove(path);
    }

    @Override
    public synchronized void changeMode(String path, int mode) throws ErrnoException {
        require(path).permissions = mode;
    }

    @Override
    public synchronized void changeOwner(String path, int uid, int gid) throws ErrnoException {
        Node node = require(path);
        node.uid = uid == -1 ? node.uid : uid;
        node.gid = gid == -1 ? node.gid : gid;
    }

    @Override
    public synchronized void changeModificationTime(String path, long epochNs) throws ErrnoException {
        require(path).modifiedEpochNs = epochNs;
    }

    @Override
    public synchronized Capacity capacity() {
        return new Capacity(4096, 1 << 20, 1 << 19, nodes.size());
    }

    /** Waits while the file is held for this kind of call; returns false after an abort of the view. */
    private boolean await(Node node, Held what) {
        long ticket = nextHandle++;
        long deadlineNs = System.nanoTime() + HELD_NS;
        try {
            while (held.get(node) == what && !aborted && System.nanoTime() - deadlineNs < 0) {
                waiting.add(ticket);
                wait(1000);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        } finally {
            waiting.remove(ticket);
        }
        return held.get(node) != what;
    }

    private Node add(String path, int type, int mode, CallingProcess caller) throws ErrnoException {
        requireDirectory(parentOf(path));
        if (nodes.containsKey(path)) {
            throw new ErrnoException(Errno.EEXIST, path + " exists");
        }
        Node node = new Node(nextInode++, type, mode, caller.uid(), caller.gid());
        nodes.put(path, node);
        return node;
    }

    private Node require(String path) throws ErrnoException {
        Node node = nodes.get(path);
        if (node == null) {
            throw new ErrnoException(Errno.ENOENT, path + " does not exist");
        }
        return node;
    }

    private Node require(long handle) throws ErrnoException {
        Node node = handles.get(handle);
        if (node == null) {
            throw new ErrnoException(Errno.EBADF, "handle " + handle + " is not open");
        }
        return node;
    }

    private void requireDirectory(String path) throws ErrnoException {
        if (require(path).type != FileType.DIRECTORY) {
            throw new ErrnoException(Errno.ENOTDIR, path + " is no directory");
        }
    }

    private static String parentOf(String path) {
        int slash = path.lastIndexOf('/');
        return slash == 0 ? "/" : path.substring(0, slash);
    }

    private FileAttributes attributes(Node node) {
        return new FileAttributes(
                node.inode,
                node.type | node.permissions,
                node.type == FileType.DIRECTORY ? 2 : 1,
                node.uid,
                node.gid,
                node.sizeBytes,
                node.modifiedEpochNs);
    }

    private static void resize(Node node, long sizeBytes) {
        if (sizeBytes < node.sizeBytes) {
            zero(node, sizeBytes, node.sizeBytes);
        }
        node.sizeBytes = sizeBytes;
    }

    private static void zero(Node node, long from, long to) {
        node.pages.keySet().removeIf(page -> page * PAGE_BYTES >= from && (page + 1) * PAGE_BYTES <= to);
        node.pages.forEach((page, bytes) -> {
            long start = Math.max(from - page * PAGE_BYTES, 0);
            long end = Math.min(to - page * PAGE_BYTES, PAGE_BYTES);
            if (start < end) {
                java.util.Arrays.fill(bytes, (int) start, (int) end, (byte) 0);
            }
        });
    }
}
