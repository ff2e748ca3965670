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
 * Removes a directory with all that is in it, while users whose files these are change what they like in it. Whatever
 * is opened lies in a directory that belongs to this service alone by then: each directory is taken over (its owner,
 * then its mode) before its entries are looked at, and one that lies deeper is first moved to the top. So no name is
 * exchanged between two looks at it, and neither links nor FIFOs are opened. No more than three directories are open,
 * however deep the tree is. Owned by the calling thread.
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
     * Removes it; nothing happens if it is not there.
     *
     * @param root in a directory in which only this service's user can exchange it
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

    /** From now on no other process makes, exchanges or renames an entry in it, also through an open descriptor. */
    private void takeOver(SecureDirectoryStream<Path> directory) throws IOException {
        PosixFileAttributeView view = directory.getFileAttributeView(PosixFileAttributeView.class);
        if (!view.getOwner().equals(self)) {
            view.setOwner(self);
        }
        view.setPermissions(PosixFilePermissions.fromString("rwx------"));
    }

    /** Removes an entry without a look at what it is; false if it is a directory with something in it. */
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
