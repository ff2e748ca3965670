package io.ppmr.os;

import jnr.ffi.LastError;
import jnr.ffi.LibraryLoader;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * The calls of the C library that the JDK does not offer, by jnr-ffi; each is described by the manual page of its name.
 * Those that answer -1 leave errno for {@link #errno}, which is of the calling thread. Public because jnr-ffi
 * implements it. Any thread, but for those calls that say otherwise.
 */
public interface LibC {
    /** The calls; the library is bound when this is used for the first time, which takes some tens of milliseconds. */
    LibC CALLS = LibraryLoader.create(LibC.class).failImmediately().load("c");

    /** The error number that the calling thread's last call has left. */
    static int errno() {
        return LastError.getLastError(Runtime.getSystemRuntime());
    }

    /** An error number in words, with the number. */
    static String describe(int errno) {
        return CALLS.strerror(errno) + " (errno " + errno + ")";
    }

    /** Whether this process has root's rights over files and processes, as far as its capabilities leave them. */
    static boolean isRoot() {
        return CALLS.geteuid() == 0;
    }

    int geteuid();

    String strerror(int errno);

    /** The path ends with a zero byte; its bytes are those of the file's name, whatever the locale. */
    int open(@In byte[] path, int flags);

    long pread(int descriptor, @Out byte[] to, long lengthBytes, long offset);

    long write(int descriptor, long address, long lengthBytes);

    int close(int descriptor);

    int kill(int pid, int signal);

    int mount(String source, String target, String type, long flags, Pointer data);

    int umount2(String target, int flags);

    int socket(int domain, int type, int protocol);

    int connect(int descriptor, @In byte[] address, int addressBytes);

    int setsockopt(int descriptor, int level, int option, @In byte[] value, int valueBytes);

    long send(int descriptor, @In byte[] data, long lengthBytes, int flags);

    /** A {@code struct passwd} in static memory, or null: for one thread at a time. */
    Pointer getpwnam(String name);

    /** A {@code struct passwd} in static memory, or null: for one thread at a time. */
    Pointer getpwuid(int uid);

    /** A {@code struct group} in static memory, or null: for one thread at a time. */
    Pointer getgrnam(String name);

    int getgrouplist(String user, int group, @Out int[] groups, int[] count);

    /** For calls that an older C library has no function for. */
    long syscall(long number, long first, long second, long third, long fourth);
}
