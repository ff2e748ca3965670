package io.ppmr.linux;

/**
 * A unique name of a process. A PID alone may belong to another process after a crash or a reboot.
 *
 * @param bootId {@code /proc/sys/kernel/random/boot_id}
 * @param pidNamespace inode of {@code /proc/PID/ns/pid}
 * @param pid the PID in the namespace of the service that made this record
 * @param startTimeTicks field 22 of {@code /proc/PID/stat}, from proc(5)
 */
public record ProcessIdentity(String bootId, long pidNamespace, int pid, long startTimeTicks) {}
