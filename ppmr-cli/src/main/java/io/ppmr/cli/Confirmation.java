package io.ppmr.cli;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import picocli.CommandLine.Model.CommandSpec;

/** Requests the user's confirmation on the terminal for an action that cannot be undone. */
final class Confirmation {
    private Confirmation() {}

    /** Returns true if the user types yes. Without a terminal the answer is no. */
    static boolean isGiven(CommandSpec command) throws IOException {
        Path in = Path.of("/proc/self/fd/0");
        boolean terminal = Terminal.isTerminal(Terminal.ERR)
                && Files.exists(in)
                && Files.readSymbolicLink(in).toString().startsWith("/dev/");
        if (!terminal) {
            return false;
        }
        PrintWriter err = command.commandLine().getErr();
        err.print("Do it? Type yes: ");
        err.flush();
        BufferedReader answers = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String answer = answers.readLine();
        return answer != null && answer.strip().toLowerCase(Locale.ROOT).equals("yes");
    }
}
