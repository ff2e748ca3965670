package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cli.Main;
import io.ppmr.cli.help.CommandList;
import io.ppmr.cli.help.CommandList.CommandGroup;
import io.ppmr.cli.help.CommandList.ListedCommand;
import io.ppmr.cli.help.ManPages;
import io.ppmr.cli.help.ReferencePages;
import io.ppmr.cli.help.ShellCompletion;
import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.metrics.MetricsDocs;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

/** Every command, option, key, exit code and metric has its page, and every page is that of the code. */
class CommandPagesTest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path PAGES = HOME.resolve("docs/reference/cli");
    private static final int MOST_CHARACTERS = 60;
    private static final int EXAMPLES = 2;

    /** All commands that are not hidden, by their whole names. */
    private static Map<String, CommandLine> commands() {
        Map<String, CommandLine> all = new TreeMap<>();
        add(all, Main.program());
        return all;
    }

    private static void add(Map<String, CommandLine> all, CommandLine command) {
        all.put(command.getCommandSpec().qualifiedName(), command);
        CommandList.visible(command.getCommandSpec())
                .forEach(name -> add(all, command.getSubcommands().get(name)));
    }

    @Test
    void shouldBeWhatTheCommandsSayWhenAllPartsAreThere() throws IOException {
        OptionalParts.assumeAll();
        Map<String, String> written = new TreeMap<>();
        try (Stream<Path> files = Files.list(PAGES)) {
            for (Path file : files.toList()) {
                written.put(file.getFileName().toString(), Files.readString(file));
            }
        }
        assertEquals(
                ReferencePages.all(Main.program()),
                written,
                "docs/reference/cli is stale: ./ppmr build && ./ppmr reference docs/reference/cli");
    }

    @Test
    void shouldHaveAPageForEachCommandWithEachOptionAndExitCode() {
        Map<String, String> manuals = ManPages.all(Main.program());
        Map<String, String> pages = ReferencePages.all(Main.program());
        commands().forEach((name, command) -> {
            String file = name.replace(' ', '-');
            String manual = manuals.get("man1/" + file + ".1");
            String page = pages.getOrDefault(file + ".md", pages.get(ReferencePages.INDEX));
            for (OptionSpec option : command.getCommandSpec().options()) {
                String bare = option.longestName().replaceFirst("^--(no-)?", "");
                assertTrue(option.hidden() || page.contains(bare), name + ": " + bare);
                assertTrue(option.hidden() || manual.replace("\\-", "-").contains(bare), name + ": " + bare);
            }
            for (String code :
                    command.getCommandSpec().usageMessage().exitCodeList().keySet()) {
                assertTrue(page.contains("| " + code + " | "), name + ": " + code);
                assertTrue(manual.contains("\\fB" + code + "\\fR"), name + ": " + code);
            }
        });
        for (ExitCode code : ExitCode.values()) {
            assertTrue(pages.get(ReferencePages.INDEX).contains("| " + code.number() + " | " + code.meaning()));
        }
    }

    @Test
    void shouldListEachCommandWithADescriptionThatFitsAndTwoExamples() {
        List<String> listed = new ArrayList<>();
        for (CommandGroup group : CommandList.all().groups()) {
            for (ListedCommand one : group.commands()) {
                assertTrue(one.text().length() <= MOST_CHARACTERS, one.text());
                assertTrue(group.isOfLauncher() || one.examples().size() == EXAMPLES, one.name());
                if (!group.isOfLauncher()) {
                    listed.add("ppmr " + one.name());
                }
            }
        }
        List<String> known = new ArrayList<>(commands().keySet());
        known.remove("ppmr");
        assertEquals(known, listed.stream().filter(known::contains).sorted().toList(), "commands.txt lacks a command");
    }

    @Test
    void shouldTakeEachExampleWhenItIsTyped() {
        CommandLine program = Main.program().setCaseInsensitiveEnumValuesAllowed(true);
        for (CommandGroup group : CommandList.all().groups()) {
            for (ListedCommand one : group.commands()) {
                one.examples().stream()
                        .filter(example -> example.startsWith("ppmr "))
                        .filter(example -> program.getSubcommands().containsKey(example.split(" ", -1)[1]))
                        .map(example -> example.replaceFirst(" > .*", "").split(" ", -1))
                        .forEach(words -> program.parseArgs(Arrays.copyOfRange(words, 1, words.length)));
            }
        }
    }

    @Test
    void shouldHaveEachKeyOnTheManualPageOfItsFile() {
        Map<String, String> manuals = ManPages.all(Main.program());
        for (ConfigRole role : ConfigRoles.all()) {
            String page = manuals.get("man5/ppmr-" + role.word() + ".toml.5");
            for (ConfigSection section : role.everything()) {
                for (ConfigKey key : section.keys()) {
                    assertTrue(page.contains(".TP\n\\fB" + key.name() + "\\fR"), section.heading() + " " + key.name());
                }
            }
        }
    }

    @Test
    void shouldHaveEachMetricOnItsPage() throws IOException {
        OptionalParts.assumeAll();
        String written = Files.readString(HOME.resolve("docs/reference/metrics.md"));
        assertEquals(
                MetricsDocs.page(),
                written,
                "docs/reference/metrics.md is stale: ./ppmr metrics > F && mv F docs/reference/metrics.md");
        assertTrue(written.contains("| `ppmr_controller_nodes` |"), "the controller's meters are missing");
    }

    @Test
    void shouldCompleteEachCommandInBothShells() {
        CommandLine program = Main.program();
        for (ShellCompletion.Shell shell : ShellCompletion.Shell.values()) {
            String script = shell.script(program.getCommandSpec());
            CommandList.visible(program.getCommandSpec()).forEach(name -> assertTrue(script.contains(name), name));
        }
    }
}
