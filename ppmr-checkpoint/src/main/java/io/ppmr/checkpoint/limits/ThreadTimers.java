package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.util.List;

/**
 * Finds POSIX timers in pods that signal a process's first thread by its number (SIGEV_THREAD_ID). CRIU dumps a pod
 * from outside, where that thread has another number, and does not find it. Timers of other threads move. For one scan
 * and one thread.
 */
final class ThreadTimers implements MemberCheck {
    private static final int MOST_BYTES = 16 << 20;
    private static final String OF_A_THREAD = "/tid.";

    private final Findings findings = new Findings();

    @Override
    public void process(Holder member) throws IOException {
        String timers =
                ProcFiles.text("/proc/" + member.pid() + "/timers", MOST_BYTES).orElse("");
        if (timers.contains(OF_A_THREAD + member.pid() + "\n")) {
            findings.add(
                    member,
                    member + " has a POSIX timer that signals its first thread (SIGEV_THREAD_ID of timer_create(2)),"
                            + " which CRIU does not write of a pod",
                    "have the program signal its process (SIGEV_SIGNAL), or delete the timer in the job's suspend hook;"
                            + " or run the job without a pod");
        }
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
