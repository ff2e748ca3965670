package io.ppmr.transaction;

/**
 * A process by a name that no other process ever has, as the journal keeps it: after a crash a bare PID may be a
 * stranger's.
 *
 * @param bootId {@code /proc/sys/kernel/random/boot_id}
 * @param pidNamespace inode of {@code /proc/PID/ns/pid}
 * @param pid as the service that made this record sees it
 * @param startTimeTicks field 22 of {@code /proc/PID/stat}, from proc(5)
 */
public record NamedProcess(String bootId, long pidNamespace, int pid, long startTimeTicks) {}
