package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cli.help.CommandList;
import io.ppmr.cli.help.CommandList.CommandGroup;
import io.ppmr.cli.help.CommandList.ListedCommand;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** In a tree that was never built, the launcher shows help and does nothing else. Operators' commands build nothing. */
class LauncherHelpTest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final String LIST = "ppmr-cli/src/main/resources/io/ppmr/cli/commands.txt";

    @TempDir
    private Path directory;

    private Path tree;
    private Path calls;

    @BeforeEach
    void makeTree() throws IOException {
        tree = Files.createDirectory(directory.resolve("tree"));
        calls = directory.resolve("calls");
        try (Stream<Path> scripts = Files.walk(HOME.resolve("scripts"))) {
            for (Path script : scripts.toList()) {
                copy(HOME.relativize(script));
            }
        }
        copy(Path.of("ppmr"));
        copy(Path.of("pom.xml"));
        copy(Path.of("conf/jvm.properties"));
        copy(Path.of(LIST));
        Path bin = Files.createDirectory(directory.resolve("bin"));
        for (String tool : List.of("mvn", "apt-get", "apt", "dpkg", "java")) {
            Path stub = Files.writeString(bin.resolve(tool), "#!/bin/sh\necho \"$0 $*\" >>" + calls + "\nexit 1\n");
            Files.setPosixFilePermissions(stub, PosixFilePermissions.fromString("rwxr-xr-x"));
        }
    }

    private void copy(Path file) throws IOException {
        Path to = tree.resolve(file);
        if (Files.isDirectory(HOME.resolve(file))) {
            Files.createDirectories(to);
        } else {
            Files.createDirectories(to.getParent());
            Files.copy(HOME.resolve(file), to, StandardCopyOption.COPY_ATTRIBUTES);
        }
    }

    private Command.CommandResult type(String... words) throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(List.of(
                "env",
                "PATH=" + directory.resolve("bin") + ":/usr/bin:/bin",
                "XDG_CACHE_HOME=" + directory,
                tree.resolve("ppmr").toString()));
        all.addAll(List.of(words));
        Command.CommandResult result = Command.of(all).run(LIMIT);
        assertFalse(Files.exists(calls), "something was built, installed or started");
        return result;
    }

    static List<String> commandsOfLauncher() {
        return CommandList.all().groups().stream()
                .filter(CommandGroup::isOfLauncher)
                .flatMap(group -> group.commands().stream())
                .map(ListedCommand::name)
                .toList();
    }

    @ParameterizedTest
    @MethodSource("commandsOfLauncher")
    void shouldShowHelpAndDoNothingElse(String command) throws Exception {
        Command.CommandResult result = type(command, "--help");
        assertEquals(0, result.exitCode(), result.output());
        assertTrue(result.output().toLowerCase(Locale.ROOT).contains("usage: ./ppmr " + command), result.output());
        assertEquals(result.output(), type("help", command).output());
    }

    @ParameterizedTest
    @ValueSource(strings = {"help", "--help", "-h"})
    void shouldListEveryCommandWhenHelpIsAskedFor(String word) throws Exception {
        Command.CommandResult result = type(word);
        assertEquals(0, result.exitCode(), result.output());
        for (CommandGroup group : CommandList.all().groups()) {
            assertTrue(result.output().contains("\n" + group.title() + ":\n"), result.output());
            for (ListedCommand one : group.commands()) {
                assertTrue(one.name().contains(" ") || result.output().contains("  " + one.name() + " "), one.name());
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"status", "migrate", "doctor", "config"})
    void shouldSayHowToBuildAndNotBuild(String command) throws Exception {
        Command.CommandResult result = type(command);
        assertEquals(1, result.exitCode(), result.output());
        assertTrue(result.output().contains("nothing is built yet. Remedy: ./ppmr build"), result.output());
    }

    @Test
    void shouldListCommandsWhenNoneIsGiven() throws Exception {
        Command.CommandResult result = type();
        assertEquals(2, result.exitCode(), result.output());
        assertTrue(result.output().contains("Move jobs:"), result.output());
    }

    @ParameterizedTest
    @ValueSource(strings = {"format", "clean"})
    void shouldDoNothingWhenAnArgumentIsWrong(String command) throws Exception {
        Command.CommandResult wrong = type(command, "now");
        assertEquals(1, wrong.exitCode(), wrong.output());
        assertTrue(wrong.output().contains(command + " takes no argument: 'now'"), wrong.output());
    }
}
