package io.ppmr.cli;

import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.config.ConfigDocs;
import io.ppmr.daemon.config.ConfigExample;
import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigException.Mistake;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ResolvedValues;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr config}: checks and shows configuration files. */
@Command(name = "config", description = "Checks and shows configuration files.", mixinStandardHelpOptions = true)
final class ConfigCommand implements Runnable {
    private static final String ELSEWHERE =
            "the file is for another node: its key, its users and its hosts are not looked for here";

    @Spec
    private CommandSpec spec;

    /** The result of a check. */
    record CheckedFile(String file, String role, List<Mistake> mistakes, List<Mistake> warnings) {}

    /** A configuration as it is shown. */
    record ShownFile(String file, String role, List<String> lines) {}

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), UsageErrors.NO_COMMAND);
    }

    @JsonResult(value = CheckedFile.class, list = true)
    @Command(
            name = "check",
            header = "Check configuration files",
            description = "Prints every mistake in the files of sources, targets and controllers.",
            mixinStandardHelpOptions = true)
    int check(
            @Parameters(
                            arity = "0..*",
                            paramLabel = "FILE",
                            description = "the files (default: those installed in /etc/ppmr)")
                    List<Path> files,
            @Option(names = "--elsewhere", description = ELSEWHERE) boolean elsewhere,
            @Option(names = "--json", description = "print the result as JSON") boolean json)
            throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        boolean good = true;
        List<CheckedFile> checked = new ArrayList<>();
        for (Path file : files == null ? installed("check") : files) {
            CheckedFile one = check(file, !elsewhere);
            checked.add(one);
            good &= one.mistakes().isEmpty();
            if (!json && one.mistakes().isEmpty()) {
                out.println(file + ": a good configuration of a " + one.role());
            } else if (!json) {
                one.mistakes().forEach(spec.commandLine().getErr()::println);
            }
            if (!json) {
                one.warnings().forEach(warning -> spec.commandLine().getErr().println("warning: " + warning));
            }
        }
        if (json) {
            JsonText.print(out, checked);
        }
        return (good ? ExitCode.OK : ExitCode.USAGE).number();
    }

    private static CheckedFile check(Path file, boolean here) {
        try {
            ConfigRole role = ConfigRoles.of(file);
            ResolvedValues values = ConfigRoles.check(role, file, here);
            return new CheckedFile(file.toString(), role.word(), List.of(), values.warnings());
        } catch (ConfigException e) {
            return new CheckedFile(file.toString(), "", e.mistakes(), List.of());
        }
    }

    /** The files of the services in use. */
    private List<Path> installed(String subcommand) {
        CommandSpec command = spec.subcommands().get(subcommand).getCommandSpec();
        InstalledServices installed = new InstalledServices(CliContext.of(spec));
        List<Path> files = installed.present().stream()
                .filter(installed::isConfigured)
                .map(installed::config)
                .toList();
        if (files.isEmpty()) {
            throw new ParameterException(
                    command.commandLine(),
                    "no FILE is given, and " + installed.config(Side.SOURCE) + " and " + installed.config(Side.TARGET)
                            + " do not exist. Remedy: name a file");
        }
        return files;
    }

    @JsonResult(ShownFile.class)
    @Command(
            name = "show",
            header = "Show a configuration with all defaults",
            description = {
                "Shows every key of a file with its value, and where that value comes from.",
                "The output is itself a configuration file with the same meaning."
            },
            mixinStandardHelpOptions = true)
    void show(
            @Parameters(
                            arity = "0..1",
                            paramLabel = "FILE",
                            description = "the file (default: the one installed in /etc/ppmr)")
                    Path named,
            @Option(names = "--elsewhere", description = ELSEWHERE) boolean elsewhere,
            @Option(names = "--json", description = "print the result as JSON") boolean json)
            throws ConfigException, IOException {
        Path file = Optional.ofNullable(named).orElseGet(this::onlyInstalled);
        ConfigRole role = ConfigRoles.of(file);
        ResolvedValues values = ConfigRoles.check(role, file, !elsewhere);
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            JsonText.print(out, new ShownFile(file.toString(), role.word(), values.lines()));
            return;
        }
        out.println("# " + file + ", resolved: the configuration of a " + role.word());
        values.lines().forEach(out::println);
    }

    private Path onlyInstalled() {
        List<Path> files = installed("show");
        if (files.size() > 1) {
            throw new NamedService.AmbiguousServiceException(
                    spec.subcommands().get("show").getCommandSpec(),
                    files.stream().map(file -> "ppmr config show " + file).toList());
        }
        return files.get(0);
    }

    @Command(
            name = "example",
            description = "Prints an example of a service's file: every key, with its meaning.",
            mixinStandardHelpOptions = true)
    void example(@Parameters(paramLabel = "ROLE", description = "source, target or controller") String word) {
        ConfigRole role = ConfigRoles.all().stream()
                .filter(one -> one.word().equals(word))
                .findFirst()
                .orElseThrow(() -> new ParameterException(
                        spec.commandLine(), "there is no role '" + word + "': name source, target or controller"));
        PrintWriter out = spec.commandLine().getOut();
        out.print(ConfigExample.of(role));
        out.flush();
    }

    @Command(
            name = "docs",
            hidden = true,
            description = "Prints the page of all keys.",
            mixinStandardHelpOptions = true)
    void docs() {
        PrintWriter out = spec.commandLine().getOut();
        out.print(ConfigDocs.page());
        out.flush();
    }
}
