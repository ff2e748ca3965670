package io.ppmr.linux;

import io.ppmr.linux.ProcFiles.FileStatus;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * A directory of proc(5) that is opened once. Its files are read by relative names, openat(2). That costs the kernel a
 * third less than full paths, and a process can have thousands of threads and descriptors. Names are bytes, with a
 * character from 0 to 255 for each. For one thread, which closes it.
 */
public final class ProcFolder implements Closeable {
    /** O_PATH. */
    private static final int PATH_ONLY = 010000000;

    private final String path;
    private final int descriptor;

    private ProcFolder(String path, int descriptor) {
        this.path = path;
        this.descriptor = descriptor;
    }

    /** Receives names. */
    @FunctionalInterface
    public interface NameReceiver<E extends Exception> {
        /**
         * Receives the next name, in the order of the kernel.
         *
         * @return false to stop the iteration
         */
        boolean accept(String name) throws IOException, E;
    }

    /**
     * Opens a directory.
     *
     * @throws NoSuchFileException if it no longer exists, for example because the process ended
     */
    public static ProcFolder open(String path) throws IOException {
        return open(path, ProcFiles.CURRENT_DIRECTORY, path);
    }

    /** Opens a directory below this one. */
    public ProcFolder folder(String name) throws IOException {
        return open(path + "/" + name, descriptor, name);
    }

    private static ProcFolder open(String path, int from, String name) throws IOException {
        int opened = ProcFiles.open(from, name, LibC.OPEN_CLOSE_ON_EXEC | PATH_ONLY);
        if (opened < 0) {
            ProcFiles.goneOrThrow(path, LibC.errno());
            throw new NoSuchFileException(path);
        }
        return new ProcFolder(path, opened);
    }

    /**
     * Passes the names in the directory to the receiver until the receiver returns false. A user decides how many names
     * there are.
     */
    public <E extends Exception> void forEach(NameReceiver<E> receiver) throws IOException, E {
        try (DirectoryStream<Path> found = Files.newDirectoryStream(Path.of(path))) {
            for (Path entry : found) {
                if (!receiver.accept(entry.getFileName().toString())) {
                    return;
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
    }

    /** Returns the text of a link in the directory; see {@link ProcFiles#link}. */
    public Optional<String> link(String name) throws IOException {
        return ProcFiles.link(descriptor, name);
    }

    /** Returns the beginning of a file in the directory; see {@link ProcFiles#beginning}. */
    public Optional<String> beginning(String name) throws IOException {
        return ProcFiles.beginning(descriptor, name);
    }

    /** Returns a whole file in the directory; see {@link ProcFiles#text}. */
    public Optional<String> text(String name, int mostBytes) throws IOException {
        return ProcFiles.text(descriptor, name, mostBytes);
    }

    /** Reads the {@code stat} file of a process or thread in the directory; empty if that no longer exists. */
    public Optional<ProcStat> stat(String name) {
        return ProcStat.read(descriptor, name);
    }

    /** Returns the status of the file that a link in the directory leads to; see {@link ProcFiles#status}. */
    public Optional<FileStatus> status(String name) throws IOException {
        return ProcFiles.status(descriptor, path, name);
    }

    /** Returns the owner of the file that a link in the directory leads to; see {@link ProcFiles#owner}. */
    public OptionalInt owner(String name) throws IOException {
        return ProcFiles.owner(descriptor, path, name);
    }

    /**
     * Returns the permissions of a link in the directory, inode(7). For the links to open or mapped files they show
     * whether the file is open for reading (0400) and for writing (0200).
     */
    public OptionalInt linkMode(String name) throws IOException {
        return ProcFiles.linkMode(descriptor, path, name);
    }

    @Override
    public void close() {
        LibC.CALLS.close(descriptor);
    }

    @Override
    public String toString() {
        return path;
    }
}
