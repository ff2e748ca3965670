package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** Finds the packages that the build made. */
final class BuiltPackages {
    private static final Path FOLDER = Path.of(System.getProperty("ppmr.home"), "ppmr-product/target");

    private BuiltPackages() {}

    /** Returns the directory of jars, native programs and packages. */
    static Path folder() {
        return FOLDER;
    }

    /** Returns the package for Debian. */
    static Path deb() throws IOException {
        return only("ppmr_.*[.]deb");
    }

    /** Returns the package for distributions with rpm. */
    static Path rpm() throws IOException {
        return only("ppmr-[0-9].*[.]rpm");
    }

    /** Returns the package of the demo for Debian. */
    static Path demoDeb() throws IOException {
        return only("ppmr-demo_.*[.]deb");
    }

    /** Returns the package of the demo for distributions with rpm. */
    static Path demoRpm() throws IOException {
        return only("ppmr-demo-[0-9].*[.]rpm");
    }

    private static Path only(String name) throws IOException {
        try (Stream<Path> files = Files.list(FOLDER)) {
            List<Path> found = files.filter(
                            file -> file.getFileName().toString().matches(name))
                    .toList();
            assertEquals(1, found.size(), "packages " + name + " in " + FOLDER + ": " + found);
            return found.get(0);
        }
    }
}
