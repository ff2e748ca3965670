package io.ppmr.cli.help;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.ppmr.cli.help.ShellCompletion.Shell;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

class ShellCompletionTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final Path ZSH = Path.of("/usr/bin/zsh");

    /** An interactive zsh in a terminal of its own completes each line, and a function prints the line's words. */
    private static final String TYPE_IN_ZSH = """
            zmodload zsh/zpty
            folder=$1
            shift
            zpty z "zsh -f -i"
            zpty -w z "PS1='> '; fpath=($folder \\$fpath); autoload -Uz compinit; compinit -u -D"
            zpty -w z "tool() { print -r -- G'O'T:\\$@:END; }; print REA''DY"
            zpty -r z text '*READY*'
            for line; do
                zpty -w z "$line"$'\\t'
                zpty -r z text '*GOT:*:END*'
                print -r -- "$text"
            done
            zpty -d z
            """;

    @TempDir
    private Path folder;

    private static String script(Shell shell) {
        CommandSpec move = CommandSpec.create()
                .name("move")
                .addOption(OptionSpec.builder("--wait").type(boolean.class).build())
                .addOption(OptionSpec.builder("--folder").type(Path.class).build());
        CommandSpec tool = CommandSpec.create().name("tool").addSubcommand("move", move);
        return shell.script(new CommandLine(tool).getCommandSpec());
    }

    @Test
    void shouldCompleteCommandsAndOptionsWhenTypedInZsh() throws Exception {
        Assumptions.assumeTrue(Files.isExecutable(ZSH), "needs zsh (./ppmr setup --all)");
        Files.writeString(folder.resolve("_tool"), script(Shell.ZSH));
        Path typing = Files.writeString(folder.resolve("type.zsh"), TYPE_IN_ZSH);
        String output = run(ZSH.toString(), "-f", typing.toString(), folder.toString(), "tool mo", "tool move --wa");
        List<String> completed = Pattern.compile("GOT:(.*?):END")
                .matcher(output)
                .results()
                .map(found -> found.group(1).strip())
                .toList();
        assertEquals(List.of("move", "move --wait"), completed, output);
        assertFalse(output.contains("not found"), output);
    }

    @Test
    void shouldCompleteCommandsAndOptionsWhenTypedInBash() throws Exception {
        Path sourced = Files.writeString(folder.resolve("tool.bash"), script(Shell.BASH));
        // Only a shell that completes a line has compopt.
        String complete = "compopt() { :; }; source \"$0\"; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1));"
                + " _complete_tool; echo \"${COMPREPLY[@]}\"";
        assertEquals(
                "move",
                run("bash", "-c", complete, sourced.toString(), "tool mo").strip());
        assertEquals(
                "--wait",
                run("bash", "-c", complete, sourced.toString(), "tool move --wa")
                        .strip());
    }

    private static String run(String... words) throws IOException, InterruptedException {
        return Command.of(List.of(words)).run(LIMIT).requireOutput();
    }
}
