package io.ppmr.cli;

import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * {@code ppmr resolve}: an operator decides for a migration whose ranks are held. See "Operators" in
 * docs/internals/transaction.md.
 */
@JsonResult(Resolution.class)
@Command(
        name = "resolve",
        description = {
            "Decides a migration whose ranks are stopped because a peer cannot be reached.",
            "It prints the consequences first. It acts if you give --yes, or confirm on a terminal.",
            "Exit code 5: the decision is recorded, but ranks stay stopped; the message names the peer."
        },
        mixinStandardHelpOptions = true)
final class ResolveCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "ID", description = "the migration, as in ppmr status; its first characters suffice")
    private String id;

    @ArgGroup(multiplicity = "1")
    private Decision decision;

    /** The two decisions. */
    private static final class Decision {
        @Option(
                names = "--commit",
                description = "the restored processes run. At the first target this needs a fence command that proves"
                        + " the source off, or --source-is-off")
        private boolean commit;

        @Option(names = "--rollback", description = "the originals run; all restored processes are killed")
        private boolean rollback;

        private FinalOutcome outcome() {
            return commit && !rollback ? FinalOutcome.COMMITTED : FinalOutcome.ROLLED_BACK;
        }
    }

    @Option(
            names = "--target-is-off",
            paramLabel = "HOST:PORT",
            description = "you confirm that this target's node is off for good; named as in ppmr status, once for each"
                    + " target")
    private List<String> targetsOff = List.of();

    @Option(names = "--source-is-off", description = "you confirm that the source's node is off for good")
    private boolean sourceOff;

    @Option(
            names = "--first-is-off",
            description = "at another target: you confirm that the first target's node is off for good")
    private boolean firstOff;

    @Option(
            names = {"-y", "--yes"},
            description = "do it without asking")
    private boolean yes;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    @Option(
            names = "--patience",
            paramLabel = "TIME",
            defaultValue = "2h",
            converter = DurationConverter.class,
            description = "stop waiting if the service sends nothing for that time (default: ${DEFAULT-VALUE})")
    private Duration patience;

    @Mixin
    private SocketArgument socket;

    @Override
    public Integer call() throws Exception {
        OperatorDecision word = new OperatorDecision(decision.outcome(), Set.copyOf(targetsOff), sourceOff, firstOff);
        Path path = socket.path();
        Resolution meaning = ask(path, word, false);
        if (meaning.result() == Resolution.ResolutionResult.REFUSED) {
            return ended(meaning, ExitCode.REFUSED);
        }
        OutputOptions.note(spec, meaning.text());
        if (!yes && !Confirmation.isGiven(spec)) {
            throw new CommandFailure(
                    ExitCode.REFUSED, "nothing was decided. Remedy: add --yes, or confirm on a terminal");
        }
        Resolution answer = ask(path, word, true);
        return switch (answer.result()) {
            case REFUSED -> ended(answer, ExitCode.REFUSED);
            case STILL_HELD -> ended(answer, ExitCode.IN_DOUBT);
            default -> ended(answer, ExitCode.OK);
        };
    }

    /** Prints the answer: as JSON whatever it is, otherwise a failure as an error. */
    private int ended(Resolution answer, ExitCode code) throws CommandFailure, IOException {
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            JsonText.print(out, answer);
        } else if (code == ExitCode.OK) {
            out.println(answer.text());
        } else {
            throw new CommandFailure(code, answer.text());
        }
        return code.number();
    }

    private Resolution ask(Path path, OperatorDecision word, boolean carryOut) throws IOException {
        try (ControlClient client = new ControlClient(path)) {
            return client.resolve(id, word, carryOut, patience);
        }
    }
}
