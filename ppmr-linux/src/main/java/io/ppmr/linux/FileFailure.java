package io.ppmr.linux;

import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.util.Map;

/**
 * Describes failures of file operations in words. The message of most exceptions of {@code java.nio.file} is a bare
 * path: it names neither the cause nor a remedy.
 */
public final class FileFailure {
    /** The kernel's reasons, strerror(3), with the remedy for each. */
    private static final Map<String, String> REMEDIES = Map.of(
            "Is a directory", "name a file",
            "Not a directory", "a part of the path is a file: correct the path",
            "No space left on device", "free space on its file system (df -h shows it)",
            "Disk quota exceeded", "free space, or have the quota raised",
            "Read-only file system", "name a place that can be written",
            "Too many open files", "raise the limit on open files (ulimit -n)",
            "File name too long", "name a shorter path",
            "Device or resource busy", "end what uses it (fuser -vm shows that)",
            "Input/output error", "check the device (dmesg shows the kernel's messages)");

    private FileFailure() {}

    /** Returns what failed, why, and what to do; for other exceptions their own message. */
    public static String describe(Throwable failure) {
        if (!(failure instanceof FileSystemException of) || of.getFile() == null) {
            String message = failure.getMessage();
            return message == null || message.isBlank() ? failure.getClass().getSimpleName() : message;
        }
        String file = of.getFile();
        if (of instanceof NoSuchFileException) {
            return missing(file);
        }
        if (of instanceof AccessDeniedException) {
            return file + ": permission denied. Remedy: run this as root, or as a user who may use that file";
        }
        if (of instanceof FileAlreadyExistsException) {
            return file + " already exists. Remedy: remove it first, or choose another name";
        }
        if (of instanceof DirectoryNotEmptyException) {
            return "the directory " + file + " is not empty. Remedy: empty it first, or choose another one";
        }
        if (of instanceof NotDirectoryException) {
            return file + " is not a directory. Remedy: name a directory";
        }
        if (of instanceof FileSystemLoopException) {
            return file + ": its symbolic links lead in a circle. Remedy: correct the links";
        }
        String reason = of.getReason();
        if (reason == null) {
            return file + ": " + of.getClass().getSimpleName();
        }
        return file + ": " + reason + (REMEDIES.containsKey(reason) ? ". Remedy: " + REMEDIES.get(reason) : "");
    }

    private static String missing(String file) {
        String first = firstMissing(file);
        return first.equals(file)
                ? file + " does not exist. Remedy: correct the path"
                : file + ": the directory " + first
                        + " does not exist. Remedy: make it (mkdir -p), or correct the path";
    }

    /** Returns the first part of a path that is not there; the whole path if only its last part can be missing. */
    private static String firstMissing(String file) {
        try {
            Path missing = Path.of(file);
            for (Path one = missing.getParent(); one != null && !Files.exists(one); one = one.getParent()) {
                missing = one;
            }
            return missing.toString();
        } catch (InvalidPathException e) {
            return file;
        }
    }
}
