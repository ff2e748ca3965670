package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds processes that may be in a Landlock sandbox, which the kernel shows nowhere and CRIU does not write. The copy
 * would be outside of it. A process in one must have disabled new privileges. If it also filters its system calls, that
 * explains this, and it is accepted, as pods are. For one scan and one thread.
 */
final class Sandboxes implements MemberCheck {
    private static final String NO_NEW_PRIVILEGES = "\nNoNewPrivs:\t1\n";
    private static final String UNFILTERED = "\nSeccomp:\t0\n";

    private static final Logger LOG = LoggerFactory.getLogger(Sandboxes.class);

    private final boolean refuses;
    private final Findings findings = new Findings();
    private int lastPid;

    /** @param refuses whether such a process is refused; otherwise the log has a warning */
    Sandboxes(boolean refuses) {
        this.refuses = refuses;
    }

    @Override
    public void thread(Holder member, int thread, String status) {
        if (member.pid() == lastPid || !status.contains(NO_NEW_PRIVILEGES) || !status.contains(UNFILTERED)) {
            return;
        }
        lastPid = member.pid();
        String reason = member + " can gain no new privileges (NoNewPrivs, thread " + thread + ") and filters no system"
                + " calls, so it may be in a sandbox of Landlock, which the kernel does not show and CRIU does not"
                + " write: the copy would be outside of it";
        if (!refuses) {
            LOG.warn("rank {}: {} (landlock = \"warn\")", member.rank(), reason);
            return;
        }
        findings.add(
                member,
                reason,
                "if the program uses no Landlock, set landlock = \"allow\" in the checkpointer's table of the"
                        + " configuration; or start the job without NoNewPrivs; or run it in a pod");
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
