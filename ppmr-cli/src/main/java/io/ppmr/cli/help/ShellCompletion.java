package io.ppmr.cli.help;

import picocli.AutoComplete;
import picocli.CommandLine.Model.CommandSpec;

/** Makes the completion scripts of shells out of the model of all commands. */
public final class ShellCompletion {
    private ShellCompletion() {}

    /** The supported shells. */
    public enum Shell {
        BASH {
            @Override
            public String script(CommandSpec program) {
                return AutoComplete.bash(program.name(), program.commandLine());
            }
        },
        /** A script that runs the one of bash by zsh's bashcompinit, and then completes for the first time. */
        ZSH {
            @Override
            public String script(CommandSpec program) {
                return "#compdef " + program.name() + "\nautoload -U +X bashcompinit && bashcompinit\n"
                        // zsh has no compopt, and expands no alias in functions of the file that makes the alias.
                        + BASH.script(program).replace("alias compopt=complete", "function compopt() { :; }")
                        + "\n_bash_complete -o default -F _complete_" + program.name() + "\n";
            }
        };

        /** Returns the script. */
        public abstract String script(CommandSpec program);
    }
}
