package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tests programs that root runs, in a folder with a path that only root can change. */
@Timeout(30)
class RootsProgramsIT {
    private static final int USER = 41234;

    private Path base;
    private Path own;
    private Path interpreter;
    private Path script;
    private final RootsPrograms programs = new RootsPrograms();

    @BeforeEach
    void setUp() throws IOException {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: files of root's");
        // The folder is not in /tmp, which every user may write.
        base = Files.createTempDirectory(Path.of("/var/lib"), "ppmr-roots-programs-it");
        own = Files.createDirectories(base.resolve("a/b"));
        interpreter = Files.copy(Path.of("/bin/sh").toRealPath(), base.resolve("interpreter"));
        script = Files.writeString(own.resolve("script"), "#! " + interpreter + " -e\nexit 0\n");
        for (Path program : List.of(interpreter, script)) {
            allow(program, "rwxr-xr-x");
        }
        for (Path folder : List.of(base, base.resolve("a"), own)) {
            allow(folder, "rwxr-xr-x");
        }
    }

    @AfterEach
    void clean() throws IOException {
        if (base != null) {
            try (Stream<Path> files = Files.walk(base)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    private static void allow(Path path, String permissions) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
    }

    private void requireRefused(Path named, String... words) {
        String refused = assertThrows(IOException.class, () -> programs.requireCommand(List.of(words)))
                .getMessage();
        assertTrue(refused.startsWith(named.toString()) && refused.contains("Remedy: "), refused);
    }

    @Test
    void shouldFindNothingWhenAllIsRoots() throws IOException {
        programs.requireCommand(List.of(script.toString(), "--file", "/nowhere", "-x"));
        programs.requireCommand(List.of("sh", "-c", "exit 0"));
        programs.requireTree(base);
        programs.requireFolders(base + "::/nowhere:" + own);
    }

    @ParameterizedTest
    @CsvSource({"a/b/script, true", "a/b, true", "a, true", "interpreter, true", "a/b/script, false", "a/b, false"})
    void shouldNameWhatAUserCanChange(String what, boolean byOwner) throws IOException {
        Path changed = base.resolve(what);
        if (byOwner) {
            Files.setAttribute(changed, "unix:uid", USER);
        } else {
            allow(changed, "rwxrwxr-x");
        }
        requireRefused(changed, script.toString());
        requireRefused(changed, "sh", script.toString());
        assertThrows(IOException.class, () -> programs.requireTree(base));
    }

    @Test
    void shouldFollowLinksOneByOneWhenTheyLeadThroughAUsersFolder() throws IOException {
        Path users = Files.createDirectory(base.resolve("users"));
        Path link = Files.createSymbolicLink(own.resolve("link"), Path.of("../../users/hop"));
        Files.createSymbolicLink(users.resolve("hop"), script);
        programs.requireCommand(List.of(link.toString()));
        Files.setAttribute(users, "unix:uid", USER);
        String refused = assertThrows(IOException.class, () -> new RootsPrograms().require(link))
                .getMessage();
        assertTrue(refused.startsWith(users + ", which leads to " + link + ", belongs to user " + USER), refused);
    }

    @Test
    void shouldNameAFileThatIsMissingAndLinksThatLeadInACircle() throws IOException {
        Path circle = Files.createSymbolicLink(own.resolve("circle"), Path.of("circle"));
        assertTrue(assertThrows(IOException.class, () -> programs.require(circle))
                .getMessage()
                .contains("too many links"));
        assertTrue(assertThrows(IOException.class, () -> programs.require(own.resolve("none")))
                .getMessage()
                .contains("is missing"));
    }

    @Test
    void shouldLookAtTheProgramThatEnvFindsForAScript() throws IOException {
        Files.writeString(script, "#!/usr/bin/env perl\n");
        programs.requireCommand(List.of(script.toString()));
        Files.writeString(script, "#!" + own.resolve("env") + " " + interpreter + "\n");
        Files.copy(Path.of("/usr/bin/env"), own.resolve("env"));
        allow(own.resolve("env"), "rwxr-xr-x");
        Files.setAttribute(interpreter, "unix:uid", USER);
        String refused = assertThrows(IOException.class, () -> new RootsPrograms().requireCommand(List.of("" + script)))
                .getMessage();
        assertTrue(refused.startsWith(interpreter.toString()), refused);
    }
}
