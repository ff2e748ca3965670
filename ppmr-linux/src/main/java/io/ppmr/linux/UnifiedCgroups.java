package io.ppmr.linux;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Finds the cgroup tree of version 2, and a process's directory in it; cgroups(7), proc_pid_mountinfo(5). */
public final class UnifiedCgroups {
    /** The file that freezes and thaws a cgroup. The root cgroup does not have it. */
    public static final String FREEZE = "cgroup.freeze";

    private static final String UNIFIED = "0::";

    private UnifiedCgroups() {}

    /**
     * Returns the mount point at which a process sees the cgroup tree of version 2; empty if there is none.
     *
     * @param process its directory in {@code /proc}
     * @throws IOException if its mounts cannot be read
     */
    public static Optional<Path> mountPoint(Path process) throws IOException {
        for (MountEntry entry : MountEntry.of(process)) {
            String place = entry.mountPoint();
            if (entry.type().equals("cgroup2") && entry.root().equals("/") && place.matches("[!-~]+")) {
                return Optional.of(Path.of(place));
            }
        }
        return Optional.empty();
    }

    /**
     * Returns the directory of a process's cgroup; empty if it is outside of this service's view.
     *
     * @param mount the mount point of the tree
     * @param process the process's directory in {@code /proc}
     * @throws IOException if the process no longer exists
     */
    public static Optional<Path> directory(Path mount, Path process) throws IOException {
        return Files.readAllLines(process.resolve("cgroup"), StandardCharsets.ISO_8859_1).stream()
                .filter(line -> line.startsWith(UNIFIED + "/") && !line.startsWith(UNIFIED + "/.."))
                .map(line -> mount.resolve(line.substring(UNIFIED.length() + 1)))
                .findFirst();
    }

    /**
     * Returns whether cgroups can be frozen. The root cgroup has no such file on any kernel, so a cgroup below it is
     * checked. If there is none yet, later ones are assumed to have the file.
     *
     * @param self this process's directory in {@code /proc}
     */
    static boolean haveFreezer(Path self) {
        try {
            Optional<Path> mount = mountPoint(self);
            if (mount.isEmpty() || !Files.isReadable(mount.get())) {
                return false;
            }
            List<Path> some = new ArrayList<>();
            directory(mount.get(), self)
                    .filter(own -> !own.equals(mount.get()) && Files.isDirectory(own))
                    .ifPresent(some::add);
            try (DirectoryStream<Path> below = Files.newDirectoryStream(mount.get(), Files::isDirectory)) {
                below.forEach(some::add);
            }
            return some.isEmpty() || some.stream().anyMatch(one -> Files.exists(one.resolve(FREEZE)));
        } catch (IOException | DirectoryIteratorException e) {
            throw new UncheckedIOException(
                    "the cgroups of this process cannot be read. Remedy: mount /proc, and let this service read"
                            + " its cgroups",
                    new IOException(e));
        }
    }
}
