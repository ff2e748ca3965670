package io.ppmr.os;

import io.ppmr.os.ProcFiles.FileStatus;
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
 * A folder of proc(5) that is opened once. The files in it are read by names relative to it, openat(2), which costs the
 * kernel a third less than whole paths: a process can have thousands of threads and of descriptors. Names are bytes, a
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
         * Takes the next name, in the order of the kernel.
         *
         * @return false if no more are wanted
         */
        boolean take(String name) throws IOException, E;
    }

    /**
     * Opens one.
     *
     * @throws NoSuchFileException if it is gone, as the process may have ended
     */
    public static ProcFolder open(String path) throws IOException {
        return open(path, ProcFiles.CURRENT_DIRECTORY, path);
    }

    /** Opens one below this one. */
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

    /** Tells the names in it, of which a user decides how many there are, until no more are wanted. */
    public <E extends Exception> void each(NameReceiver<E> receiver) throws IOException, E {
        try (DirectoryStream<Path> found = Files.newDirectoryStream(Path.of(path))) {
            for (Path entry : found) {
                if (!receiver.take(entry.getFileName().toString())) {
                    return;
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
    }

    /** Returns the text of a link in it; see {@link ProcFiles#link}. */
    public Optional<String> link(String name) throws IOException {
        return ProcFiles.link(descriptor, name);
    }

    /** Returns the beginning of a file in it; see {@link ProcFiles#beginning}. */
    public Optional<String> beginning(String name) throws IOException {
        return ProcFiles.beginning(descriptor, name);
    }

    /** Returns a whole file in it; see {@link ProcFiles#text}. */
    public Optional<String> text(String name, int mostBytes) throws IOException {
        return ProcFiles.text(descriptor, name, mostBytes);
    }

    /** Reads the {@code stat} of a process or thread in it; empty if that is gone. */
    public Optional<ProcStat> stat(String name) {
        return ProcStat.read(descriptor, name);
    }

    /** Returns what a link in it leads to; see {@link ProcFiles#status}. */
    public Optional<FileStatus> status(String name) throws IOException {
        return ProcFiles.status(descriptor, path, name);
    }

    /** Returns the owner of the file that a link in it leads to; see {@link ProcFiles#owner}. */
    public OptionalInt owner(String name) throws IOException {
        return ProcFiles.owner(descriptor, path, name);
    }

    /**
     * Returns the permissions of a link in it, inode(7). Those of the links to what a process has open or mapped tell
     * whether it is open for reading (0400) and for writing (0200).
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
