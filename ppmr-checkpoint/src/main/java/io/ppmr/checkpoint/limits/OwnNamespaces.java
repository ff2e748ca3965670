package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.util.List;
import java.util.Optional;

/**
 * Finds processes in namespaces that CRIU does not give their copies. Those are cgroup namespaces, and network
 * namespaces if CRIU cannot block their traffic. Not for pods, whose namespaces ppmr makes. For one scan and thread.
 */
final class OwnNamespaces implements MemberCheck {
    private final Findings findings = new Findings();
    private final boolean keepsCgroups;
    private final boolean blocksNetworks;

    /**
     * @param keepsCgroups whether arguments have CRIU write cgroups
     * @param blocksNetworks whether CRIU can block the traffic of a network namespace
     */
    OwnNamespaces(boolean keepsCgroups, boolean blocksNetworks) {
        this.keepsCgroups = keepsCgroups;
        this.blocksNetworks = blocksNetworks;
    }

    @Override
    public void process(Holder member) throws IOException {
        if (!keepsCgroups && isElsewhere(member, "cgroup")) {
            findings.add(
                    member,
                    member + " is in another cgroup namespace than this service, which CRIU does not give its copy",
                    "start the job without a cgroup namespace (unshare without --cgroup, a container with"
                            + " --cgroupns=host)");
        }
        if (!blocksNetworks && isElsewhere(member, "net")) {
            findings.add(
                    member,
                    member + " is in another network namespace than this service, and CRIU cannot block its traffic:"
                            + " CRIU needs root and iptables-restore for that",
                    "install iptables on both nodes and have CRIU run as root, or run the job in a pod");
        }
    }

    /** A process that ends in the meantime is nowhere. */
    private static boolean isElsewhere(Holder member, String kind) throws IOException {
        Optional<String> own = ProcFiles.link("/proc/self/ns/" + kind);
        Optional<String> other = ProcFiles.link("/proc/" + member.pid() + "/ns/" + kind);
        return own.isPresent() && other.isPresent() && !own.equals(other);
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
