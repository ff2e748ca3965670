package io.ppmr.checkpoint;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Finds the script that installs CRIU, and a CRIU that it has installed, for commands and remedies. */
public final class CriuInstaller {
    /** The directory to which CRIU is installed by default, and that is looked into. */
    public static final Path USUAL = Path.of("/var/lib/ppmr/criu");

    private static final List<String> SCRIPTS =
            List.of("scripts/install-criu.sh", "ppmr-checkpoint/src/main/sh/install-criu.sh");

    private CriuInstaller() {}

    /** Returns what to do on a node whose configured CRIU does not work. */
    static String remedy(Map<String, String> environment) {
        List<String> words = installed(environment);
        if (!words.isEmpty()) {
            return "write this into [checkpointers.criu]: program = ["
                    + words.stream().map(word -> '"' + word + '"').collect(Collectors.joining(", ")) + "]";
        }
        return "run ppmr install-criu, then ppmr doctor again: it prints the line of the configuration";
    }

    /**
     * Returns the script that installs CRIU.
     *
     * @param home the tree of ppmr
     */
    public static Optional<Path> script(Path home) {
        return SCRIPTS.stream().map(home::resolve).filter(Files::exists).findFirst();
    }

    /** The words that start an installed CRIU; empty if there is none. */
    private static List<String> installed(Map<String, String> environment) {
        String named = environment.getOrDefault("PPMR_CRIU", "");
        if (!named.isBlank()) {
            return named.lines().filter(word -> !word.isBlank()).toList();
        }
        Path root = USUAL.resolve("root");
        if (!Files.exists(USUAL.resolve("complete"))) {
            return List.of();
        }
        try (Stream<Path> loaders = Stream.of("lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1")
                .map(root::resolve)
                .filter(Files::exists)) {
            return loaders.findFirst().map(loader -> words(root, loader)).orElse(List.of());
        }
    }

    private static List<String> words(Path root, Path loader) {
        String triplet = loader.toString().contains("x86") ? "x86_64-linux-gnu" : "aarch64-linux-gnu";
        String libraries = root + "/lib/" + triplet + ":" + root + "/usr/lib/" + triplet;
        return List.of(loader.toString(), "--library-path", libraries, root + "/usr/sbin/criu");
    }
}
