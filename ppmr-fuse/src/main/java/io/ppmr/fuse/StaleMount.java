package io.ppmr.fuse;

import io.ppmr.linux.MountEntry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Prepares a mount point: clears the mount of a killed service, and refuses everything else.
 *
 * <p>A service killed with SIGKILL leaves a dead mount ("Transport endpoint is not connected"). If it held a file of
 * its own mount it also hangs in the kernel until its connection is aborted. So the old connection is aborted before
 * its mount is removed. Only mounts of type {@code fuse.ppmr} whose service no longer runs are changed. The mount point
 * itself is not accessed while a filesystem is mounted there, because that may hang. Stateless.
 */
public final class StaleMount {
    private static final Logger LOG = LoggerFactory.getLogger(StaleMount.class);
    private static final int STACKED_LIMIT = 16;
    /** The type of this project's mounts, see {@link MountOptions}. */
    private static final String PPMR_TYPE = "fuse.ppmr";

    private StaleMount() {}

    /**
     * Clears the mounts of dead services at a mount point.
     *
     * @return the mount point, absolute and without symbolic links: an empty directory without a mount
     * @throws MountException if the mount point is missing, not a directory, not empty, or in use by another program
     */
    public static Path clear(Path mountPoint) throws IOException, InterruptedException {
        Path named = resolveParent(mountPoint);
        clearStack(named);
        if (!Files.exists(named, LinkOption.NOFOLLOW_LINKS)) {
            throw new MountException(
                    "mount point " + named + " does not exist; create it with 'mkdir -p " + named + "'");
        }
        Path real = named.toRealPath();
        if (!real.equals(named)) {
            clearStack(real);
        }
        if (!Files.isDirectory(real)) {
            throw new MountException("mount point " + real + " is not a directory; name an empty directory");
        }
        try (Stream<Path> names = Files.list(real)) {
            List<String> first =
                    names.limit(3).map(name -> name.getFileName().toString()).toList();
            if (!first.isEmpty()) {
                throw new MountException("mount point " + real + " is not empty (it contains "
                        + String.join(", ", first) + "); empty it or name another directory");
            }
        }
        return real;
    }

    /**
     * Removes the mounts of dead services, without requiring an empty directory below.
     *
     * @return whether there was one
     * @throws MountException if a running service, or another program, mounted there
     */
    public static boolean detachDead(Path mountPoint) throws IOException, InterruptedException {
        Path named = resolveParent(mountPoint);
        boolean mounted = !MountEntry.at(named).isEmpty();
        clearStack(named);
        return mounted;
    }

    /** Follows links in all names except the last, which may be a dead mount. */
    private static Path resolveParent(Path mountPoint) throws IOException {
        Path absolute = mountPoint.toAbsolutePath().normalize();
        Path parent = absolute.getParent();
        if (parent == null) {
            throw new MountException("cannot mount at /; name an empty directory");
        }
        if (!Files.isDirectory(parent)) {
            throw new MountException("mount point " + absolute + " and its parent directory do not exist;"
                    + " create it with 'mkdir -p " + absolute + "'");
        }
        return parent.toRealPath().resolve(absolute.getFileName());
    }

    private static void clearStack(Path mountPoint) throws IOException, InterruptedException {
        for (int cleared = 0; cleared < STACKED_LIMIT; cleared++) {
            List<MountEntry> entries = MountEntry.at(mountPoint);
            if (entries.isEmpty()) {
                return;
            }
            MountEntry top = entries.get(entries.size() - 1);
            requireDead(top, mountPoint, PPMR_TYPE.equals(top.type()));
            abortThenDetach(top, mountPoint);
        }
        throw new MountException("more than " + STACKED_LIMIT + " dead mounts are stacked on " + mountPoint
                + "; unmount them with 'umount -l " + mountPoint + "'");
    }

    /** Throws unless the service of a mount no longer runs. {@code ours} is true if a service created it. */
    static void requireDead(MountEntry entry, Path mountPoint, boolean ours) throws IOException {
        String what = mountPoint + " is busy: " + entry.source() + " (type " + entry.type() + ") is mounted there";
        if (!ours) {
            throw new MountException(what + "; unmount it or name another directory");
        }
        ServiceIdentity service = ServiceIdentity.parse(entry.source());
        String byHand = "; if it is dead, unmount it with 'umount -l " + mountPoint + "'";
        if (service == null) {
            throw new MountException(what + " by an unknown process" + byHand);
        }
        if (!service.isOfThisPidNamespace()) {
            throw new MountException(what + " by process " + service.pid() + " of another PID namespace" + byHand);
        }
        if (service.isServing()) {
            throw new MountException(what + " and served by the running process " + service.pid()
                    + "; stop that service or name another directory");
        }
    }

    private static void abortThenDetach(MountEntry entry, Path mountPoint) throws IOException, InterruptedException {
        try {
            boolean aborted = MountCalls.abortConnection(entry.deviceMinor());
            LOG.warn(
                    "{}: clearing the mount that {} left behind (connection {} {})",
                    mountPoint,
                    entry.source(),
                    entry.deviceMinor(),
                    aborted ? "aborted" : "ended before");
        } catch (IOException e) {
            LOG.warn(
                    "{}: connection {} of {} cannot be aborted ({}); a killed service that hangs on it stays until"
                            + " root writes 1 to /sys/fs/fuse/connections/{}/abort",
                    mountPoint,
                    entry.deviceMinor(),
                    entry.source(),
                    e.toString(),
                    entry.deviceMinor());
        }
        MountCalls.detach(mountPoint);
    }
}
