package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;

/**
 * Copies on this node that run while {@code ppmr-pages} still fills their memory. That program holds a lock on a file
 * beside the records of namespaces as long as it does, also when the service that started it is gone. Until then the
 * copy is not moved. For any thread.
 */
public final class FillingCopies {
    private static final String SUFFIX = ".filling";

    private FillingCopies() {}

    /** Returns whether the processes of a PID namespace, given by its inode, are still filled. */
    static boolean isFilling(long pidNamespace) throws IOException {
        Path file = NamespaceRecord.FOLDER.resolve(pidNamespace + SUFFIX);
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
                FileLock lock = channel.tryLock(0, Long.MAX_VALUE, true)) {
            return lock == null;
        } catch (NoSuchFileException e) {
            return false;
        } catch (OverlappingFileLockException e) {
            // Another thread of this service has the file locked at this moment.
            return true;
        }
    }

    /**
     * Waits until ranks are whole.
     *
     * @param roots the root process of each rank
     * @param over checked repeatedly; returns true if the wait must end
     */
    public static void await(Map<Integer, ProcessIdentity> roots, Duration most, BooleanSupplier over)
            throws CheckpointException {
        List<Integer> left = new ArrayList<>();
        boolean whole = Polling.until(most, () -> {
            left.clear();
            left.addAll(filling(roots));
            return left.isEmpty() || over.getAsBoolean();
        });
        if (!whole || !left.isEmpty()) {
            throw new CheckpointException("the memory of ranks " + left + ", which were moved here before, is still"
                    + " filled. Remedy: migrate again");
        }
    }

    private static Collection<Integer> filling(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        Map<Long, Boolean> known = new TreeMap<>();
        List<Integer> left = new ArrayList<>();
        for (Map.Entry<Integer, ProcessIdentity> root : roots.entrySet()) {
            long namespace = root.getValue().pidNamespace();
            try {
                if (!known.containsKey(namespace)) {
                    known.put(namespace, isFilling(namespace));
                }
            } catch (IOException e) {
                throw new CheckpointException(
                        "it cannot be read whether rank " + root.getKey() + " is whole: " + e + ". Remedy: make "
                                + NamespaceRecord.FOLDER + " readable for the service",
                        e);
            }
            if (known.get(namespace)) {
                left.add(root.getKey());
            }
        }
        return left;
    }
}
