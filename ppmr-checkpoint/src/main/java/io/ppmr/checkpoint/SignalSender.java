package io.ppmr.checkpoint;

import java.time.Duration;
import java.util.List;

/** Sends signals to processes by identity, never by PID alone. Immutable, for any thread. */
final class SignalSender {
    /** The signals used here, by their number on Linux (the same on x86-64 and AArch64). */
    enum Signal {
        KILL(9),
        TERM(15),
        CONT(18),
        STOP(19);

        private final int number;

        Signal(int number) {
            this.number = number;
        }
    }

    private static final Duration HELPER_LIMIT = Duration.ofSeconds(10);
    private static final int EXIT_GONE = 3;

    private final NativePrograms programs;
    private final ProcessTable table;

    SignalSender(NativePrograms programs, ProcessTable table) {
        this.programs = programs;
        this.table = table;
    }

    /**
     * Sends a signal, if that very process still lives.
     *
     * @return false if it is gone
     */
    boolean send(Signal signal, ProcessIdentity process) throws CheckpointException {
        if (!table.isAlive(process)) {
            return false;
        }
        HelperCall.Result result = HelperCall.run(
                List.of(
                        programs.signal().toString(),
                        Integer.toString(signal.number),
                        Integer.toString(process.pid()),
                        Long.toString(process.startTimeTicks()),
                        Long.toString(process.pidNamespace())),
                HELPER_LIMIT);
        if (result.exitCode() != 0 && result.exitCode() != EXIT_GONE) {
            throw new CheckpointException("SIG" + signal + " could not be sent to PID " + process.pid() + " ("
                    + result.describe() + "). Remedy: run as root or as the job's user");
        }
        return result.exitCode() == 0;
    }

    /** Sends a signal to each process that still lives. */
    void sendAll(Signal signal, List<ProcessIdentity> processes) throws CheckpointException {
        for (ProcessIdentity process : processes) {
            send(signal, process);
        }
    }
}
