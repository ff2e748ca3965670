package io.ppmr.packages;

import java.nio.file.Path;

/** The content of a package at one path, owned by root, with the time of the commit. It is immutable. */
sealed interface PackageEntry {
    /** Returns the absolute path in the installed system. */
    String path();

    /** A directory that the package owns. */
    record PackagedFolder(String path, int mode) implements PackageEntry {}

    /**
     * A file.
     *
     * @param source the file whose bytes it has. Its own mode, owner and time do not matter
     */
    record PackagedFile(String path, int mode, Path source) implements PackageEntry {}

    /** A symbolic link. */
    record PackagedLink(String path, String target) implements PackageEntry {}
}
