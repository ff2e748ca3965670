package io.ppmr.daemon.service;

/** A failure of a command that its user can remedy: one line and an exit code. */
public final class CommandFailure extends Exception {
    private final ExitCode exitCode;

    public CommandFailure(ExitCode exitCode, String message) {
        super(message);
        this.exitCode = exitCode;
    }

    public CommandFailure(ExitCode exitCode, String message, Throwable cause) {
        super(message, cause);
        this.exitCode = exitCode;
    }

    public ExitCode exitCode() {
        return exitCode;
    }
}
