package io.ppmr.cli;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * {@code ppmr resolve}: an operator decides for a migration whose ranks are held; docs/internals/transaction.md,
 * "Operators".
 */
@Command(
        name = "resolve",
        description = {
            "Decides a migration whose ranks are held because a peer is unreachable. Prints what the"
                    + " decision would mean, and does it with --yes, or when that is confirmed on a terminal.",
            "0: decided, and no ranks are held there. 4: refused, or not confirmed: nothing was changed."
                    + " 5: noted, but ranks stay held; the message names the peer."
        },
        mixinStandardHelpOptions = true)
final class ResolveCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "ID", description = "the migration, by its name in ppmr status or its first characters")
    private String id;

    @ArgGroup(multiplicity = "1")
    private Decision decision;

    /** One of both. */
    private static final class Decision {
        @Option(
                names = "--commit",
                description = "the copies run: at the first target, once the fence command proves the source off, or"
                        + " with --source-is-off")
        private boolean commit;

        @Option(names = "--rollback", description = "the originals run, or what is left of them; every copy is ended")
        private boolean rollback;

        private FinalOutcome outcome() {
            return commit && !rollback ? FinalOutcome.COMMITTED : FinalOutcome.ROLLED_BACK;
        }
    }

    @Option(
            names = "--target-is-off",
            paramLabel = "HOST:PORT",
            arity = "1..*",
            description = "your word that these targets' nodes are off for good, named as in ppmr status")
    private List<String> targetsOff = List.of();

    @Option(names = "--source-is-off", description = "your word that the source's node is off for good")
    private boolean sourceOff;

    @Option(
            names = "--first-is-off",
            description = "your word, at another target, that the first target's node is off for good")
    private boolean firstOff;

    @Option(names = "--yes", description = "do it without asking")
    private boolean yes;

    @Option(
            names = "--patience",
            paramLabel = "SECONDS",
            defaultValue = "7200",
            description = "give up when the service has not answered for that time (default: ${DEFAULT-VALUE})")
    private long patienceSeconds;

    @ArgGroup(multiplicity = "1")
    private SocketArgument socket;

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        OperatorDecision word = new OperatorDecision(decision.outcome(), Set.copyOf(targetsOff), sourceOff, firstOff);
        Path path = socket.path();
        Resolution meaning = ask(path, word, false);
        if (meaning.result() == Resolution.ResolutionResult.REFUSED) {
            throw new CommandFailure(ExitCode.REFUSED, meaning.text());
        }
        out.println(meaning.text());
        out.flush();
        if (!yes && !isConfirmed(out)) {
            throw new CommandFailure(ExitCode.REFUSED, "nothing was decided: add --yes to do it");
        }
        Resolution answer = ask(path, word, true);
        if (answer.result() == Resolution.ResolutionResult.REFUSED) {
            throw new CommandFailure(ExitCode.REFUSED, answer.text());
        }
        if (answer.result() == Resolution.ResolutionResult.STILL_HELD) {
            throw new CommandFailure(ExitCode.IN_DOUBT, answer.text());
        }
        out.println(answer.text());
        return ExitCode.OK.number();
    }

    private Resolution ask(Path path, OperatorDecision word, boolean carryOut) throws IOException {
        try (ControlClient client = new ControlClient(path)) {
            return client.resolve(id, word, carryOut, Duration.ofSeconds(patienceSeconds));
        }
    }

    /** Asks on the terminal; without one nothing is confirmed. */
    private static boolean isConfirmed(PrintWriter out) throws IOException {
        Path in = Path.of("/proc/self/fd/0");
        boolean terminal = ProgressView.onTerminal()
                && Files.exists(in)
                && Files.readSymbolicLink(in).toString().startsWith("/dev/");
        if (!terminal) {
            return false;
        }
        out.print("Do it? Type yes: ");
        out.flush();
        BufferedReader answers = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String answer = answers.readLine();
        return answer != null && answer.strip().toLowerCase(Locale.ROOT).equals("yes");
    }
}
