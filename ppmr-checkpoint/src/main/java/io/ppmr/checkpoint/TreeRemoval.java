package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.UUID;

/**
 * Removes a directory with all its content, while the owners of these files may change it. Each directory first becomes
 * the service's own (its owner, then its mode) before its entries are read. A deeper directory is first moved to the
 * top. Therefore everything that is opened is in a directory of the service. No name can be exchanged between two
 * accesses, and neither links nor FIFOs are opened. At most three directories are open, however deep the tree is. Owned
 * by the calling thread.
 */
final class TreeRemoval {
    private final SecureDirectoryStream<Path> top;
    private final UserPrincipal self;
    private final String movedPrefix = ".removed-" + UUID.randomUUID() + "-";
    private final Deque<Path> left = new ArrayDeque<>();
    private int moved;

    private TreeRemoval(SecureDirectoryStream<Path> top, UserPrincipal self) {
        this.top = top;
        this.self = self;
    }

    /**
     * Removes the directory, if it exists.
     *
     * @param root directory in a parent in which only this service's user can exchange it
     */
    static void remove(Path root) throws IOException {
        Path whole = root.toAbsolutePath().normalize();
        Path parent = whole.getParent();
        if (parent == null) {
            throw new IOException("/ is not removed");
        }
        UserPrincipal self = Files.getOwner(Path.of("/proc/self"));
        if (!Files.exists(parent)) {
            return;
        }
        try (DirectoryStream<Path> opened = Files.newDirectoryStream(parent)) {
            if (!(opened instanceof SecureDirectoryStream<Path> above)) {
                throw new IOException(whole + " cannot be removed safely: this system has no openat(2)");
            }
            Path name = whole.getFileName();
            if (removeNow(above, name)) {
                return;
            }
            try (SecureDirectoryStream<Path> top = above.newDirectoryStream(name, LinkOption.NOFOLLOW_LINKS)) {
                new TreeRemoval(top, self).empty();
            }
            above.deleteDirectory(name);
        }
    }

    private void empty() throws IOException {
        takeOver(top);
        for (Path entry : top) {
            Path name = entry.getFileName();
            if (!removeNow(top, name)) {
                left.add(name);
            }
        }
        while (!left.isEmpty()) {
            Path directory = left.remove();
            try (SecureDirectoryStream<Path> inside = top.newDirectoryStream(directory, LinkOption.NOFOLLOW_LINKS)) {
                takeOver(inside);
                for (Path entry : inside) {
                    Path name = entry.getFileName();
                    if (!removeNow(inside, name)) {
                        Path place = Path.of(movedPrefix + moved);
                        moved++;
                        inside.move(name, top, place);
                        left.add(place);
                    }
                }
            }
            top.deleteDirectory(directory);
        }
    }

    /**
     * Takes the directory's ownership. From now on no other process can make, exchange or rename an entry in it, even
     * through an open descriptor.
     */
    private void takeOver(SecureDirectoryStream<Path> directory) throws IOException {
        PosixFileAttributeView view = directory.getFileAttributeView(PosixFileAttributeView.class);
        if (!view.getOwner().equals(self)) {
            view.setOwner(self);
        }
        view.setPermissions(PosixFilePermissions.fromString("rwx------"));
    }

    /** Removes an entry of any kind. Returns false for a directory that is not empty. */
    private static boolean removeNow(SecureDirectoryStream<Path> directory, Path name) throws IOException {
        try {
            directory.deleteDirectory(name);
            return true;
        } catch (DirectoryNotEmptyException full) {
            return false;
        } catch (FileSystemException noDirectory) {
            try {
                directory.deleteFile(name);
                return true;
            } catch (NoSuchFileException gone) {
                return true;
            } catch (FileSystemException e) {
                throw new IOException(
                        name + " cannot be removed: " + noDirectory.getReason() + "; " + e.getReason(), e);
            }
        }
    }
}
