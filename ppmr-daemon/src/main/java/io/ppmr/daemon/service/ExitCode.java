package io.ppmr.daemon.service;

import io.ppmr.migration.source.MigrationReport;

/** The exit codes of every command. */
public enum ExitCode {
    /** Success; for a migration: committed. */
    OK(0, "done; a migration has committed"),
    /** Any other failure. */
    FAILED(1, "anything else went wrong; the message says what"),
    /** The command line or the configuration is wrong. */
    USAGE(2, "the command line or the configuration is wrong"),
    /** The originals continue. */
    ROLLED_BACK(3, "the migration was rolled back: the originals continue"),
    /** Nothing was touched. */
    REFUSED(4, "the migration, or the restart, was refused: nothing was touched"),
    /** Ranks are held. */
    IN_DOUBT(5, "in doubt: ranks are held and a peer is unreachable; see ppmr status");

    private final int number;
    private final String meaning;

    ExitCode(int number, String meaning) {
        this.number = number;
        this.meaning = meaning;
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
