package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Finds processes in a mode that CRIU does not write and only the process itself can set. Such modes are an execution
 * domain of personality(2), as from {@code setarch -R}, and speculation disabled by prctl(2). Filters of system calls
 * disable that, too, and CRIU writes these. For one scan and one thread.
 */
final class ExecutionModes implements MemberCheck {
    private static final int MOST_BYTES = 4096;
    private static final Pattern TURNED_OFF =
            Pattern.compile("(?m)^Speculation\\w+:\\t(?:thread (?:force )?mitigated|conditional (?:force )?disabled)$");
    private static final String UNFILTERED = "\nSeccomp:\t0\n";

    private final Findings findings = new Findings();
    private String own = "";
    private int lastPid;

    @Override
    public void process(Holder member) throws IOException {
        if (own.isEmpty()) {
            own = ProcFiles.text("/proc/self/personality", MOST_BYTES)
                    .orElse("0")
                    .strip();
        }
        String other = ProcFiles.text("/proc/" + member.pid() + "/personality", MOST_BYTES)
                .orElse(own)
                .strip();
        if (!other.equals(own)) {
            findings.add(
                    member,
                    member + " has the execution domain " + other + " (personality(2), in hexadecimal), which CRIU does"
                            + " not write",
                    "start the job without setarch(8)");
        }
    }

    @Override
    public void thread(Holder member, int thread, String status) {
        if (member.pid() != lastPid
                && status.contains(UNFILTERED)
                && TURNED_OFF.matcher(status).find()) {
            lastPid = member.pid();
            findings.add(
                    member,
                    member + " has turned speculation off for thread " + thread + " (PR_SET_SPECULATION_CTRL of"
                            + " prctl(2)), which CRIU does not write",
                    "have the program leave that as it is, or run the job in a pod");
        }
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
