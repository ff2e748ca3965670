package io.ppmr.linux;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jnr.ffi.LastError;
import jnr.ffi.LibraryLoader;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import jnr.ffi.annotations.IgnoreError;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * Calls of the C library that the JDK does not offer, bound by jnr-ffi. The manual page of each name describes it.
 * Calls that return -1 set errno, which {@link #errno} returns for the calling thread. Public because jnr-ffi
 * implements it. Any thread, unless a method states otherwise.
 */
public interface LibC {
    /** The calls. First use binds the library, which takes some tens of milliseconds. */
    LibC CALLS = LibraryLoader.create(LibC.class).failImmediately().load("c");

    /** GETPID of semctl(2). */
    int SEMAPHORE_USER = 11;

    /** AF_INET. */
    int INTERNET = 2;

    /** F_SETFD of fcntl(2). */
    int SET_DESCRIPTOR_FLAGS = 2;

    /** FD_CLOEXEC. */
    int CLOSE_ON_EXEC = 1;

    /** O_CLOEXEC. */
    int OPEN_CLOSE_ON_EXEC = 0x80000;

    /** O_RDWR. */
    int OPEN_READ_WRITE = 2;

    /** O_NOFOLLOW. */
    int OPEN_NO_LINK = 0x20000;

    /** FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE. */
    int PUNCH_HOLE = 3;

    /** SOCK_DGRAM. */
    int DATAGRAMS = 2;

    /** SOL_SOCKET. */
    int SOCKET_LEVEL = 1;

    /** SO_PASSCRED. */
    int PASS_CREDENTIALS = 16;

    /** AF_NETLINK. */
    int NETLINK = 16;

    /** SOCK_RAW. */
    int RAW = 3;

    /** NETLINK_NETFILTER. */
    int NETFILTER_PROTOCOL = 12;

    /** {@code struct nlmsghdr}: length, type, flags, sequence number, sender. */
    int NETLINK_HEADER_BYTES = 16;

    /** The header and {@code struct nfgenmsg}: family, version, resource; all 0. */
    int NETFILTER_REQUEST_BYTES = NETLINK_HEADER_BYTES + Integer.BYTES;

    /** IPCTNL_MSG_CT_GET of NFNL_SUBSYS_CTNETLINK. */
    short GET_TRACKED = 0x100 | 1;

    /** NLM_F_REQUEST and NLM_F_DUMP. */
    short REQUEST_ALL = 0x301;

    /** NLMSG_ERROR. */
    int NETLINK_ERROR = 2;

    /** The kernel's maximum bytes in one answer. */
    int NETLINK_ANSWER_BYTES = 32768;

    /** MSG_DONTWAIT. */
    int DO_NOT_WAIT = 0x40;

    /** The number of landlock_create_ruleset(2), on all architectures. */
    int CREATE_LANDLOCK_RULES = 444;

    /** LANDLOCK_CREATE_RULESET_VERSION. */
    int LANDLOCK_VERSION = 1;

    /** EINVAL. */
    int INVALID_ARGUMENT = 22;

    /** Returns the error number of the calling thread's last call. */
    static int errno() {
        return LastError.getLastError(Runtime.getSystemRuntime());
    }

    /** Describes an error number in words, with the number. */
    static String describe(int errno) {
        return CALLS.strerror(errno) + " (errno " + errno + ")";
    }

    /** Returns true if this process has root's rights over files and processes, within its capabilities. */
    static boolean isRoot() {
        return CALLS.geteuid() == 0;
    }

    /**
     * Returns the PID of the last process that operated on a System V semaphore. The result is 0 if there is none in
     * this PID namespace, and -1 if the set does not exist or may not be read.
     */
    static int semaphoreUser(int set, int semaphore) {
        return CALLS.semctl(set, semaphore, SEMAPHORE_USER);
    }

    /** Returns true if SO_PASSCRED of unix(7) can be read on an Internet socket, too; false from Linux 6.16 on. */
    static boolean givesCredentialsOfInternetSockets() {
        int descriptor = CALLS.socket(INTERNET, DATAGRAMS, 0);
        if (descriptor < 0) {
            return true;
        }
        try {
            int[] length = {Integer.BYTES};
            return CALLS.getsockopt(descriptor, SOCKET_LEVEL, PASS_CREDENTIALS, new byte[Integer.BYTES], length) == 0;
        } finally {
            CALLS.close(descriptor);
        }
    }

    /**
     * Returns false if the kernel cannot list the connections that netfilter tracks, because nf_conntrack_netlink is
     * missing and cannot be loaded. Returns true for a process without the right to query them. See netlink(7) and
     * {@code include/uapi/linux/netfilter/nfnetlink_conntrack.h}.
     */
    static boolean listsTrackedConnections() {
        int descriptor = CALLS.socket(NETLINK, RAW, NETFILTER_PROTOCOL);
        if (descriptor < 0) {
            return true;
        }
        try {
            ByteBuffer request = ByteBuffer.allocate(NETFILTER_REQUEST_BYTES)
                    .order(ByteOrder.nativeOrder())
                    .putInt(NETFILTER_REQUEST_BYTES)
                    .putShort(GET_TRACKED)
                    .putShort(REQUEST_ALL);
            byte[] answer = new byte[NETLINK_ANSWER_BYTES];
            // The kernel answers before send(2) returns.
            if (CALLS.send(descriptor, request.array(), NETFILTER_REQUEST_BYTES, 0) < 0
                    || CALLS.recv(descriptor, answer, answer.length, DO_NOT_WAIT)
                            < NETLINK_HEADER_BYTES + Integer.BYTES) {
                return true;
            }
            ByteBuffer words = ByteBuffer.wrap(answer).order(ByteOrder.nativeOrder());
            boolean isError = words.getShort(Integer.BYTES) == NETLINK_ERROR;
            return !isError || words.getInt(NETLINK_HEADER_BYTES) != -INVALID_ARGUMENT;
        } finally {
            CALLS.close(descriptor);
        }
    }

    /** Returns true if this kernel supports sandboxes of landlock(7). */
    static boolean hasLandlock() {
        // Queries the version of the interface, which only a kernel with landlock enabled returns.
        return CALLS.syscall(CREATE_LANDLOCK_RULES, 0, 0, LANDLOCK_VERSION, 0) > 0;
    }

    int geteuid();

    /** Sets the process's file mode creation mask, for all its threads, and returns the previous one. */
    int umask(int mask);

    String strerror(int errno);

    /** The path ends with a zero byte. Its bytes are those of the file's name, independent of the locale. */
    int open(@In byte[] path, int flags);

    /** Writes no zero byte after the text. */
    long readlinkat(int folder, long path, long to, long lengthBytes);

    int openat(int folder, long path, int flags);

    long pread(int descriptor, long to, long lengthBytes, long offset);

    /** Path and name end with a zero byte. */
    long getxattr(@In byte[] path, @In byte[] name, @Out byte[] to, long lengthBytes);

    /** Fills a {@code struct statfs}, whose first word is the filesystem's type. The path ends with a zero byte. */
    int statfs(@In byte[] path, @Out byte[] to);

    long pread(int descriptor, @Out byte[] to, long lengthBytes, long offset);

    long pwrite(int descriptor, long from, long lengthBytes, long offset);

    int ftruncate(int descriptor, long lengthBytes);

    int fallocate(int descriptor, int mode, long offset, long lengthBytes);

    long write(int descriptor, long address, long lengthBytes);

    int fcntl(int descriptor, int command, int argument);

    int ioctl(int descriptor, long request, long address);

    int close(int descriptor);

    int fchown(int descriptor, int uid, int gid);

    /** The first descriptor is the reading end, the second is the writing end. */
    int pipe2(@Out int[] ends, int flags);

    /** One {@code struct pollfd}, in and out; poll(2). */
    int poll(@In @Out byte[] descriptor, long count, int timeoutMs);

    int kill(int pid, int signal);

    int mount(String source, String target, String type, long flags, Pointer data);

    int umount2(String target, int flags);

    /** Has no fourth argument, so it supports only commands without one. */
    int semctl(int set, int semaphore, int command);

    int socket(int domain, int type, int protocol);

    /** Moves only the calling thread, which must do nothing else afterwards. */
    int setns(int descriptor, int kind);

    int shutdown(int descriptor, int how);

    int connect(int descriptor, @In byte[] address, int addressBytes);

    int setsockopt(int descriptor, int level, int option, @In byte[] value, int valueBytes);

    /** For some options the previous contents of {@code value} are an argument. */
    int getsockopt(int descriptor, int level, int option, @In @Out byte[] value, int[] valueBytes);

    int getsockname(int descriptor, @Out byte[] address, int[] addressBytes);

    long send(int descriptor, @In byte[] data, long lengthBytes, int flags);

    long recv(int descriptor, @Out byte[] to, long lengthBytes, int flags);

    /** Returns a {@code struct passwd} in static memory, or null. For one thread at a time. */
    Pointer getpwnam(String name);

    /** Returns a {@code struct passwd} in static memory, or null. For one thread at a time. */
    Pointer getpwuid(int uid);

    /** Returns a {@code struct group} in static memory, or null. For one thread at a time. */
    Pointer getgrnam(String name);

    int getgrouplist(String user, int group, @Out int[] groups, int[] count);

    /** For system calls for which an older C library has no function. */
    long syscall(long number, long first, long second, long third, long fourth);

    /**
     * For system calls with five arguments. The kernel does not receive the last number: jnr-ffi 2.2 passes the last of
     * six plain numbers wrongly on x86-64, but passes seven correctly.
     */
    long syscall(long number, long first, long second, long third, long fourth, long fifth, long unused);

    /** Copies native memory between ranges that do not overlap. Has no errors. */
    @IgnoreError
    long memcpy(long to, long from, long lengthBytes);
}
