package io.ppmr.checkpoint;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

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
    private static final String GONE = "gone ";
    /** So many PIDs fit any command line. */
    private static final int AT_ONCE = 500;

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
        return sendAll(signal, List.of(process)).isEmpty();
    }

    /**
     * Sends a signal to each process that still lives, in this order, by one run of the helper for many of them. Where
     * one may not be signalled the others are all the same.
     *
     * @return those that are gone
     */
    List<ProcessIdentity> sendAll(Signal signal, List<ProcessIdentity> processes) throws CheckpointException {
        List<ProcessIdentity> gone = new ArrayList<>();
        List<ProcessIdentity> alive = new ArrayList<>();
        for (ProcessIdentity process : processes) {
            (table.isAlive(process) ? alive : gone).add(process);
        }
        CheckpointException failure = null;
        for (int from = 0; from < alive.size(); from += AT_ONCE) {
            try {
                gone.addAll(sendSome(signal, alive.subList(from, Math.min(from + AT_ONCE, alive.size()))));
            } catch (CheckpointException e) {
                failure = failure == null ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return gone;
    }

    private List<ProcessIdentity> sendSome(Signal signal, List<ProcessIdentity> some) throws CheckpointException {
        List<String> command = new ArrayList<>(List.of(programs.signal().toString(), Integer.toString(signal.number)));
        for (ProcessIdentity process : some) {
            command.add(Integer.toString(process.pid()));
            command.add(Long.toString(process.startTimeTicks()));
            command.add(Long.toString(process.pidNamespace()));
        }
        HelperCall.Result result = HelperCall.run(command, HELPER_LIMIT);
        if (result.exitCode() != 0) {
            throw new CheckpointException("SIG" + signal + " could not be sent to PIDs "
                    + some.stream().map(ProcessIdentity::pid).toList() + " (" + result.describe()
                    + "). Remedy: run as root or as the job's user");
        }
        Set<String> gone = result.output().lines().collect(Collectors.toSet());
        return some.stream()
                .filter(process -> gone.contains(GONE + process.pid()))
                .toList();
    }
}
