package io.ppmr.cli.help;

import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr reference}: writes the generated pages, for the build of the documentation. */
@Command(
        name = "reference",
        hidden = true,
        header = "Write the reference pages, the manual pages and the completions",
        description = {
            "Writes the reference pages of all commands to a directory.",
            "With --man it writes the manual pages and completions."
        },
        mixinStandardHelpOptions = true)
public final class ReferenceCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "DIR", description = "the directory to write to")
    private Path directory;

    @Option(names = "--man", description = "write manual pages of sections 1 and 5, and completions")
    private boolean man;

    @Override
    public Integer call() throws IOException {
        Map<String, String> pages =
                man ? installed() : ReferencePages.all(spec.root().commandLine());
        for (Map.Entry<String, String> page : pages.entrySet()) {
            Path file = directory.resolve(page.getKey());
            Files.createDirectories(file.getParent());
            Files.writeString(file, page.getValue());
        }
        spec.commandLine().getOut().println(pages.size() + " pages written to " + directory);
        return ExitCode.OK.number();
    }

    /** The pages and completions of an installation, for its packages. */
    private Map<String, String> installed() {
        Map<String, String> pages = new TreeMap<>(ManPages.all(spec.root().commandLine()));
        pages.put("completions/ppmr.bash", ShellCompletion.Shell.BASH.script(spec.root()));
        pages.put("completions/ppmr.zsh", ShellCompletion.Shell.ZSH.script(spec.root()));
        return pages;
    }
}
