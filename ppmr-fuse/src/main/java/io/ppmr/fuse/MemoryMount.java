package io.ppmr.fuse;

import io.ppmr.linux.Folders;
import io.ppmr.linux.MountEntry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A filesystem in memory (tmpfs(5)) for one service: no user can enter or fill it. Its size is a limit. Memory is
 * allocated as files are written. Its source contains the service's identity, like a FUSE mount's, so that a killed
 * service's mount is recognized. Owned by the service; detached when it is closed.
 */
public final class MemoryMount implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(MemoryMount.class);
    private static final String NAME = "ppmr-staging";
    private static final String TYPE = "tmpfs";
    private static final int STACKED_LIMIT = 16;

    private final Path mountPoint;
    private boolean closed;

    private MemoryMount(Path mountPoint) {
        this.mountPoint = mountPoint;
    }

    /**
     * Mounts a filesystem, and replaces those of killed services at the same place.
     *
     * @param mountPoint created if it is missing, in a directory where no user can change a name
     * @param sizeBytes the limit of its files
     * @throws MountException if it cannot be mounted, or a running service or another program mounted there
     */
    public static MemoryMount mount(Path mountPoint, long sizeBytes) throws IOException, InterruptedException {
        detachDead(mountPoint);
        Folders.create(mountPoint, Folders.PRIVATE);
        Path real = mountPoint.toRealPath();
        String options = "mode=0700,size=" + sizeBytes;
        String source = ServiceIdentity.ofThisProcess().asSource(NAME);
        try {
            // With huge pages a written page would allocate 2 MiB, and punched holes would free nothing.
            MountCalls.mountWithoutDevice(source, real, TYPE, options + ",huge=never");
        } catch (MountException e) {
            LOG.debug("{}: mounting again without an option that only newer kernels have", real, e);
            MountCalls.mountWithoutDevice(source, real, TYPE, options);
        }
        return new MemoryMount(real);
    }

    /**
     * Detaches the mounts of killed services.
     *
     * @return whether there was one
     * @throws MountException if a running service, or another program, mounted there
     */
    public static boolean detachDead(Path mountPoint) throws IOException, InterruptedException {
        if (!Files.isDirectory(mountPoint, LinkOption.NOFOLLOW_LINKS)) {
            return false;
        }
        Path real = mountPoint.toRealPath();
        int detached = 0;
        for (List<MountEntry> all = MountEntry.at(real); !all.isEmpty(); all = MountEntry.at(real)) {
            MountEntry top = all.get(all.size() - 1);
            StaleMount.requireDead(
                    top, real, TYPE.equals(top.type()) && top.source().startsWith(NAME + "@"));
            if (detached == STACKED_LIMIT) {
                throw new MountException("more than " + STACKED_LIMIT + " dead mounts are stacked on " + real
                        + "; unmount them with 'umount -l " + real + "'");
            }
            LOG.warn("{}: detaching the memory that {} left behind", real, top.source());
            MountCalls.detach(real);
            detached++;
        }
        return detached > 0;
    }

    /** Detaches it, and removes the mount point. Its memory is free when no file in it is open. */
    @Override
    public void close() throws IOException {
        if (closed) {
            return;
        }
        closed = true;
        try {
            MountCalls.detach(mountPoint);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        Files.deleteIfExists(mountPoint);
    }
}
