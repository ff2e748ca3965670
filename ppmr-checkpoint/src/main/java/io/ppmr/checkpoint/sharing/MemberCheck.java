package io.ppmr.checkpoint.sharing;

import io.ppmr.linux.ProcFiles.FileStatus;
import java.io.IOException;
import java.util.List;
import java.util.Optional;

/**
 * A further check of the ranks' processes, for which {@link HolderScan} reads {@code /proc} anyway. Each link, file
 * status and thread's status is read once for all checks. For one scan and one thread; it touches no process.
 */
public interface MemberCheck {
    /** Receives a process before all its parts. */
    default void process(Holder member) throws IOException {}

    /**
     * Receives one of a process's threads.
     *
     * @param status the text of its {@code status}, proc_pid_status(5)
     */
    default void thread(Holder member, int thread, String status) throws IOException {}

    /** Receives an open descriptor. */
    default void descriptor(Open open) throws IOException {}

    /** Receives a mapping of an unlinked file, of a device, or of an object that is no file. */
    default void mapping(Mapped mapped) throws IOException {}

    /** Returns the findings, after everything was received. */
    List<Refusal> refusals();

    /**
     * An open descriptor. Immutable.
     *
     * @param holder the process
     * @param number the descriptor
     * @param name the kernel's text for it, a character for each byte
     * @param status status of the file behind a path; empty for everything else, and if it cannot be read
     * @param isInOwnMount false if it was opened through a mount that is not in the process's mount namespace
     * @param info the text of its {@code fdinfo}, proc_pid_fdinfo(5); empty for sockets
     */
    record Open(
            Holder holder, int number, String name, Optional<FileStatus> status, boolean isInOwnMount, String info) {
        /** Returns the path by which this service reaches the file. */
        public String path() {
            return "/proc/" + holder.pid() + "/fd/" + number;
        }

        @Override
        public String toString() {
            return holder + " has " + EscapedName.text(name) + " open as descriptor " + number;
        }
    }

    /**
     * A mapping. Immutable.
     *
     * @param holder the process
     * @param range its addresses, as in {@code /proc/PID/maps}
     * @param name the kernel's text for it, a character for each byte
     */
    record Mapped(Holder holder, String range, String name) {
        private static final int HEX = 16;

        /** Returns the path by which this service reaches the file. */
        public String path() {
            int dash = range.indexOf('-');
            return "/proc/" + holder.pid() + "/map_files/" + plain(range.substring(0, dash)) + "-"
                    + plain(range.substring(dash + 1));
        }

        /**
         * Removes leading zeros of an address. {@code map_files} does not have the zeros that {@code maps} puts before
         * addresses.
         */
        private static String plain(String address) {
            return Long.toHexString(Long.parseUnsignedLong(address, HEX));
        }

        @Override
        public String toString() {
            return holder + " has " + EscapedName.text(name) + " mapped";
        }
    }
}
