package io.ppmr.daemon.service;

/** A command that cannot continue for a reason that its user can do something about: one line and an exit code. */
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
