package io.ppmr.cli.demo;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.WorkDirectories;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;

/** A folder for everything that a demonstration writes, which both nodes and the jobs' user see. Gone when closed. */
final class DemoFolder implements AutoCloseable {
    private final Path path;

    private DemoFolder(Path path) {
        this.path = path;
    }

    /** Makes it, in the folder for temporary files. */
    static DemoFolder create() throws IOException {
        String parent = System.getenv().getOrDefault("TMPDIR", "/tmp");
        Path path = Files.createTempDirectory(Path.of(parent), "ppmr-demo-");
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwxr-xr-x"));
        return new DemoFolder(path);
    }

    Path path() {
        return path;
    }

    /** A new folder in it, for the services. */
    Path folder(String name) throws IOException {
        return Files.createDirectories(path.resolve(name));
    }

    /** A new folder in it, for a job. */
    Path folder(String name, JobUser user) throws IOException {
        Path folder = Files.createDirectory(
                path.resolve(name), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Files.setAttribute(folder, "unix:gid", user.gid());
        Files.setAttribute(folder, "unix:uid", user.uid());
        return folder;
    }

    /** Copies programs into it, since the jobs' user may not be let into where the project lies. */
    Path programs(List<Path> folders) throws IOException {
        Path bin = folder("bin");
        for (Path folder : folders) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
                for (Path file : files) {
                    Path copy = bin.resolve(file.getFileName());
                    Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
                    Files.setPosixFilePermissions(copy, PosixFilePermissions.fromString("rwxr-xr-x"));
                }
            }
        }
        return bin;
    }

    @Override
    public void close() throws IOException {
        WorkDirectories.remove(path);
    }
}
