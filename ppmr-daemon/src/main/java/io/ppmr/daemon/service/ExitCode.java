package io.ppmr.daemon.service;

import io.ppmr.migration.source.MigrationReport;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** The exit codes of every command. */
public enum ExitCode {
    /** Success. For a migration it means committed. */
    OK(0, "done"),
    /** Any other failure. */
    FAILED(1, "an error; the message names the cause"),
    /** The command line or the configuration is wrong. */
    USAGE(2, "the command line or the configuration is wrong"),
    /** The originals continue. */
    ROLLED_BACK(3, "undone: the job continues as before"),
    /** The migration changed nothing. */
    REFUSED(4, "refused; nothing was changed"),
    /** Ranks are held. */
    IN_DOUBT(5, "in doubt: ranks are stopped, a peer cannot be reached; see ppmr status");

    private final int number;
    private final String meaning;

    ExitCode(int number, String meaning) {
        this.number = number;
        this.meaning = meaning;
    }

    /** Returns the code of a number. Throws if there is none. */
    public static ExitCode numbered(int number) {
        return Arrays.stream(values())
                .filter(code -> code.number == number)
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("there is no exit code " + number));
    }

    /** Returns all codes with their meanings, as a help text has them. */
    public static Map<String, String> meanings() {
        Map<String, String> meanings = new LinkedHashMap<>();
        for (ExitCode code : values()) {
            meanings.put(String.valueOf(code.number), code.meaning);
        }
        return meanings;
    }

    public int number() {
        return number;
    }

    public String meaning() {
        return meaning;
    }

    /** Returns the exit code for the outcome of a migration. */
    public static ExitCode of(MigrationReport.Outcome outcome) {
        return switch (outcome) {
            case COMMITTED -> OK;
            case ROLLED_BACK -> ROLLED_BACK;
            case REFUSED -> REFUSED;
            case IN_DOUBT -> IN_DOUBT;
        };
    }
}
