package io.ppmr.pods;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * The system calls that are denied to pods, in the form of the OCI runtime specification. No process of a pod can make
 * or enter a user namespace, where its user would have all capabilities. No process can make a Landlock domain, which
 * no checkpointer restores. {@code ppmr-pod-enter} has the same list for further commands in pods that moved here. CRIU
 * restores the filter of a pod that moves.
 */
final class PodSeccomp {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    /** CLONE_NEWUSER of sched.h. */
    private static final long NEW_USER_NAMESPACE = 0x10000000L;

    private static final int EPERM = 1;
    /** The error of a kernel without the call: programs then work without it. */
    private static final int ENOSYS = 38;

    private static final String FILTERED = "2";

    private PodSeccomp() {}

    /** Returns the whole profile. */
    static ObjectNode profile() {
        ObjectNode profile = MAPPER.createObjectNode();
        profile.put("defaultAction", "SCMP_ACT_ALLOW");
        architectures().forEach(profile.putArray("architectures")::add);
        // Otherwise kernels before Linux 5.16 slow down all code of the pod (spec_store_bypass_disable).
        profile.putArray("flags").add("SECCOMP_FILTER_FLAG_SPEC_ALLOW");
        ArrayNode calls = profile.putArray("syscalls");
        for (String call : List.of("clone", "unshare")) {
            refuse(calls, EPERM, call)
                    .putArray("args")
                    .addObject()
                    .put("index", 0)
                    .put("value", NEW_USER_NAMESPACE)
                    .put("valueTwo", NEW_USER_NAMESPACE)
                    .put("op", "SCMP_CMP_MASKED_EQ");
        }
        refuse(calls, EPERM, "setns");
        // Its flags are in memory, which a filter cannot read. The C library falls back to clone.
        refuse(calls, ENOSYS, "clone3");
        refuse(calls, ENOSYS, "landlock_create_ruleset");
        return profile;
    }

    private static ObjectNode refuse(ArrayNode calls, int error, String call) {
        ObjectNode refused = calls.addObject();
        refused.putArray("names").add(call);
        return refused.put("action", "SCMP_ACT_ERRNO").put("errnoRet", error);
    }

    /** Lists the architectures whose programs this node runs. A call by any other convention kills its process. */
    private static List<String> architectures() {
        return switch (System.getProperty("os.arch").toLowerCase(Locale.ROOT)) {
            case "amd64", "x86_64" -> List.of("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32");
            case "aarch64" -> List.of("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM");
            default -> List.of();
        };
    }

    /** Throws if a pod's init lacks the profile, because the runtime was built without seccomp. */
    static void require(ProcessTable processes, ProcessIdentity init) throws IOException {
        Path status = Path.of("/proc", Integer.toString(init.pid()), "status");
        try {
            if (ProcStat.field(status, "Seccomp").filter(FILTERED::equals).isEmpty()) {
                throw new IOException("the runtime has not filtered the system calls of a pod. Remedy: install a crun"
                        + " with seccomp (crun --version shows +SECCOMP)");
            }
        } catch (IOException e) {
            // A command may end at once.
            if (processes.isAlive(init)) {
                throw e;
            }
        }
    }
}
