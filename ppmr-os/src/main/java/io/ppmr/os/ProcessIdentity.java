package io.ppmr.os;

/**
 * A process by a name that no other process ever has: a bare PID may be another process's after a crash or a reboot.
 *
 * @param bootId {@code /proc/sys/kernel/random/boot_id}
 * @param pidNamespace inode of {@code /proc/PID/ns/pid}
 * @param pid as the service that made this record sees it
 * @param startTimeTicks field 22 of {@code /proc/PID/stat}, from proc(5)
 */
public record ProcessIdentity(String bootId, long pidNamespace, int pid, long startTimeTicks) {}
