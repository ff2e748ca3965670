package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Detects that a process waits for a file lock. It uses the place in the kernel where the process sleeps and the
 * arguments of its system call; proc_pid_wchan(5), proc_pid_syscall(5). It does not read the kernel's table of all
 * locks. That table grows with other users' locks, and the kernel needs more time for each further line.
 */
final class LockWait {
    private static final Logger LOG = LoggerFactory.getLogger(LockWait.class);

    /**
     * Parts of the names of the kernel's functions that wait for flock(2) and fcntl(2): {@code flock_lock_file_wait}
     * and {@code posix_lock_file_wait} up to Linux 4.2, {@code locks_lock_inode_wait} and {@code fcntl_setlk} since.
     */
    private static final List<String> PLACES = List.of("lock_file_wait", "lock_inode_wait", "fcntl_setlk");

    /** The number of a system call and its first argument, which is a descriptor in both calls. */
    private static final Pattern CALL = Pattern.compile("-?\\d{1,9} 0x([0-9a-f]{1,7}) .*", Pattern.DOTALL);

    private static final int HEX = 16;

    private LockWait() {}

    /**
     * Returns the file whose lock a process waits for. Empty if it does not wait, ended, or cannot be read.
     *
     * @param process its directory in {@code /proc}
     */
    static Optional<String> file(Path process) {
        try {
            String place = Files.readString(process.resolve("wchan"), StandardCharsets.ISO_8859_1);
            return PLACES.stream().anyMatch(place::contains) ? Optional.of(named(process)) : Optional.empty();
        } catch (IOException gone) {
            LOG.debug("{} is left out: {}", process, gone.toString());
            return Optional.empty();
        }
    }

    private static String named(Path process) {
        try {
            Matcher call = CALL.matcher(Files.readString(process.resolve("syscall"), StandardCharsets.ISO_8859_1));
            if (call.matches()) {
                String descriptor = Integer.toString(Integer.parseInt(call.group(1), HEX));
                return Files.readSymbolicLink(process.resolve("fd").resolve(descriptor))
                        .toString();
            }
        } catch (IOException unknown) {
            LOG.debug("the lock that {} waits for has no name: {}", process, unknown.toString());
        }
        return "of unknown name";
    }
}
