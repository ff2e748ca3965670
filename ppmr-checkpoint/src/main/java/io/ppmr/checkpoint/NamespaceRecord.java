package io.ppmr.checkpoint;

import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The record that a rank's init has written about itself, in a folder that only root can change.
 * {@code namespace-record.h} has its format. It outlives the service that has restored the rank, and every service of
 * the node reads it. It names the boot, so it is invalid after the next one. For any thread.
 */
final class NamespaceRecord {
    /** The folder of the records. Each record is named by the inode of a PID namespace. */
    static final Path FOLDER = Path.of("/run/ppmr/namespaces");

    private static final int MAX_BYTES = 256;
    private static final String ROOTS_IDS = "0\t0\t0\t0";
    private static final int ROOT = 0;
    private static final Set<PosixFilePermission> WRITE_OF_OTHERS = PosixFilePermissions.fromString("----w--w-");

    private NamespaceRecord() {}

    /**
     * Returns why a process is not the init of a namespace that root's {@code ppmr-rank-init} made, or empty if it is.
     * Its name is no proof. Neither is its user, which may be root in a user namespace of its own.
     */
    static Optional<String> whyNotOurs(ProcessTable table, ProcessIdentity process) {
        Path proc = Path.of("/proc", Integer.toString(process.pid()));
        try {
            if (!userNamespace(Integer.toString(process.pid())).equals(userNamespace("self"))) {
                return Optional.of("it has another user namespace than this service");
            }
            if (!ProcStat.field(proc.resolve("status"), "Uid").equals(Optional.of(ROOTS_IDS))) {
                return Optional.of("it does not belong to root");
            }
            Map<String, Object> program = Files.readAttributes(proc.resolve("exe"), "unix:dev,ino");
            String found = table.bootId() + " " + process.pidNamespace() + " " + ProcStat.namespace(proc, "mnt") + " "
                    + process.startTimeTicks() + " " + program.get("dev") + " " + program.get("ino") + "\n";
            requireRoots(FOLDER);
            Optional<String> recorded = recorded(process.pidNamespace());
            if (recorded.isEmpty()) {
                return Optional.of("it has no record in " + FOLDER);
            }
            if (!recorded.get().equals(found)) {
                return Optional.of("its record in " + FOLDER + " belongs to another process");
            }
            return table.isAlive(process) ? Optional.empty() : Optional.of("it ended");
        } catch (IOException e) {
            return Optional.of("it, or its record, cannot be read: " + e);
        }
    }

    /**
     * Returns the user namespace of a process, by its inode, or empty if the kernel has no user namespaces.
     *
     * @param process its PID, or "self"
     * @throws NoSuchFileException if the process is gone
     */
    static Optional<Long> userNamespace(String process) throws IOException {
        try {
            return Optional.of(ProcStat.namespace(Path.of("/proc", process), "user"));
        } catch (NoSuchFileException e) {
            if (Files.exists(Path.of("/proc/self/ns/user"), LinkOption.NOFOLLOW_LINKS)) {
                throw e;
            }
            return Optional.empty();
        }
    }

    private static Optional<String> recorded(long pidNamespace) throws IOException {
        try {
            return UserPath.read(FOLDER.resolve(Long.toString(pidNamespace)), new JobUser(ROOT, ROOT), MAX_BYTES);
        } catch (NoSuchFileException none) {
            return Optional.empty();
        }
    }

    private static void requireRoots(Path folder) throws IOException {
        for (Path one = folder; one != null; one = one.getParent()) {
            Map<String, Object> found =
                    Files.readAttributes(one, "unix:uid,isDirectory,permissions", LinkOption.NOFOLLOW_LINKS);
            @SuppressWarnings("unchecked")
            Set<PosixFilePermission> permissions = (Set<PosixFilePermission>) found.get("permissions");
            if (!found.get("uid").equals(ROOT)
                    || !found.get("isDirectory").equals(true)
                    || permissions.stream().anyMatch(WRITE_OF_OTHERS::contains)) {
                throw new IOException(one + " is not a folder that only root can change");
            }
        }
    }
}
