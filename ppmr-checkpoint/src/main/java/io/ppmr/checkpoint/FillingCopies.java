package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
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
    private static final int MOST_DIGITS = 18;

    private FillingCopies() {}

    /** Returns whether the processes of a PID namespace, given by its inode, are still filled. */
    static boolean isFilling(long pidNamespace) throws IOException {
        Path file = NamespaceRecord.FOLDER.resolve(pidNamespace + SUFFIX);
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
            return isLocked(channel);
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    /**
     * Returns the memory that copies on this node may need which are still filled, beside what is used now. Their pages
     * are there twice for a time, since the program that fills them gives its own back in blocks.
     */
    public static long leftBytes() throws IOException {
        return leftBytes(NamespaceRecord.FOLDER);
    }

    static long leftBytes(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return 0;
        }
        long bytes = 0;
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*" + SUFFIX)) {
            for (Path file : files) {
                bytes += leftBytesIn(file);
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return bytes;
    }

    private static long leftBytesIn(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
            if (!isLocked(channel)) {
                return 0;
            }
            ByteBuffer text = ByteBuffer.allocate(MOST_DIGITS + 1);
            channel.read(text, 0);
            String digits = new String(text.array(), 0, text.position(), StandardCharsets.US_ASCII).strip();
            // The program writes it right after it has the lock.
            return digits.matches("[0-9]{1," + MOST_DIGITS + "}") ? Long.parseLong(digits) : 0;
        } catch (NoSuchFileException e) {
            return 0;
        }
    }

    private static boolean isLocked(FileChannel channel) throws IOException {
        try (FileLock lock = channel.tryLock(0, Long.MAX_VALUE, true)) {
            return lock == null;
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
