package io.ppmr.daemon.service;

import io.ppmr.checkpoint.RootsPrograms;
import io.ppmr.os.LibC;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Sees, before a service of root's starts, that only root can change what it runs as root: its own files, its java, the
 * folders in which programs are found by name, and the commands of its configuration. A service that is started by hand
 * out of a source tree is not looked at: its builder decides what runs there.
 */
public final class ProgramCheck {
    private static final String MANIFEST = "install.manifest";

    /** The parts of a tree that the launcher, which is one of them, runs or reads. */
    private static final List<String> LAUNCHER = List.of("ppmr", "conf", "scripts");

    private ProgramCheck() {}

    /**
     * Throws, and names the file, the cause and the remedy, if another user could make root run a program.
     *
     * @param commands that root runs, by the keys of the configuration that name them
     * @param environment of this process
     */
    public static void require(Map<String, List<String>> commands, Map<String, String> environment)
            throws CommandFailure {
        Path home = Path.of(environment.getOrDefault("PPMR_HOME", "/"));
        if (LibC.isRoot() && (Files.exists(home.resolve(MANIFEST)) || Supervisor.isUnit(environment))) {
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
