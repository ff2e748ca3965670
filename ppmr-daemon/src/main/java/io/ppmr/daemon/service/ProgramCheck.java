package io.ppmr.daemon.service;

import io.ppmr.checkpoint.RootsPrograms;
import io.ppmr.linux.LibC;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Checks, before a service of root starts, that only root can change the programs that it runs as root. These are its
 * own files, its java, the directories of PATH, and the commands of its configuration. A service that is started by
 * hand from a source tree is not checked, because its builder controls its programs.
 */
public final class ProgramCheck {
    /** The file by which the tree of a package is known. */
    public static final String PACKAGE = "package.properties";

    private static final String MANIFEST = "install.manifest";

    /** The parts of a tree that the launcher runs or reads, with the launcher. */
    private static final List<String> LAUNCHER = List.of("ppmr", "conf", "scripts");

    private ProgramCheck() {}

    /**
     * Throws, with the file, the cause and the remedy, if another user could make root run a program.
     *
     * @param commands the commands that root runs, by their keys in the configuration
     * @param environment the environment of this process
     */
    public static void require(Map<String, List<String>> commands, Map<String, String> environment)
            throws CommandFailure {
        Path home = Path.of(environment.getOrDefault("PPMR_HOME", "/"));
        boolean installed = Files.exists(home.resolve(MANIFEST)) || Files.exists(home.resolve(PACKAGE));
        if (LibC.isRoot() && (installed || Supervisor.isUnit(environment))) {
            requireRoots(home, commands, environment);
        }
    }

    static void requireRoots(Path home, Map<String, List<String>> commands, Map<String, String> environment)
            throws CommandFailure {
        RootsPrograms programs = new RootsPrograms();
        String what = "its own files";
        try {
            for (Path part : own(home)) {
                programs.requireTree(part);
            }
            what = "its java";
            programs.requireTree(Path.of(System.getProperty("java.home")));
            what = "java.library.path";
            programs.requireFolders(System.getProperty("java.library.path", ""));
            what = "PATH";
            programs.requireFolders(environment.getOrDefault("PATH", ""));
            for (Map.Entry<String, List<String>> command : commands.entrySet()) {
                what = command.getKey();
                programs.requireCommand(command.getValue());
            }
        } catch (IOException e) {
            throw new CommandFailure(
                    ExitCode.USAGE,
                    "the service does not start, because another user could choose what it runs as root (" + what
                            + "): " + e.getMessage());
        }
    }

    private static List<Path> own(Path home) {
        List<Path> parts = new ArrayList<>();
        LAUNCHER.forEach(name -> parts.add(home.resolve(name)));
        parts.add(Path.of(System.getProperty("ppmr.native.dir", "/nowhere")));
        for (String entry : System.getProperty("java.class.path", "").split(":", -1)) {
            parts.add(Path.of(entry.isEmpty() ? "." : entry));
        }
        parts.removeIf(part -> !Files.exists(part));
        return parts;
    }
}
