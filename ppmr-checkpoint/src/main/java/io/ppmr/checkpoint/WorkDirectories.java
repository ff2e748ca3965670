package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * The directories in which checkpoint and restart commands keep their own files: one a rank, which only the
 * job's user can enter.
 */
public final class WorkDirectories {
    private WorkDirectories() {}

    public static Path create(Path root, int rank, JobUser user) throws IOException {
        Files.createDirectories(root);
        Files.setPosixFilePermissions(root, PosixFilePermissions.fromString("rwx--x--x"));
        Path directory = Files.createDirectory(root.resolve("rank-" + rank));
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx------"));
        if (user.uid() != (int) Files.getAttribute(directory, "unix:uid")) {
            Files.setAttribute(directory, "unix:gid", user.gid());
            Files.setAttribute(directory, "unix:uid", user.uid());
        }
        return directory;
    }

    public static void remove(Path root) throws IOException {
        if (!Files.exists(root)) {
            return;
        }
        Files.walkFileTree(root, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.delete(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path directory, IOException error) throws IOException {
                if (error != null) {
                    throw error;
                }
                Files.delete(directory);
                return FileVisitResult.CONTINUE;
            }
        });
    }
}
