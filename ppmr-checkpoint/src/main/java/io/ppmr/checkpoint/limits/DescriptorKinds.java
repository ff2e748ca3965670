package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFiles.FileStatus;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Finds descriptors and mappings of kinds that CRIU does not write: rings of io_uring, counters of perf, hardware
 * devices, and sockets of unsupported families. For one scan and one thread.
 */
final class DescriptorKinds implements MemberCheck {
    private static final String ANONYMOUS = "anon_inode:";
    private static final String SOCKET = "socket:[";
    private static final String SECRET = "/secretmem";

    /** Kinds without a path that CRIU writes, with and without the kernel's brackets around them. */
    private static final Set<String> WRITTEN =
            Set.of("eventfd", "eventpoll", "inotify", "fanotify", "signalfd", "timerfd", "pidfd", "bpf-map");

    /** The families of sockets that CRIU writes, as the beginnings of their protocols' names. */
    private static final List<String> WRITTEN_PROTOCOLS =
            List.of("UNIX", "TCP", "UDP", "RAW", "PING", "PACKET", "NETLINK");

    /** The line for a semaphore, since Linux 6.7. */
    private static final Pattern SEMAPHORE = Pattern.compile("(?m)^eventfd-semaphore:\\s*1$");

    private static final long MESSAGE_QUEUES = 0x19800202L;
    private static final int MEMORY_DEVICES = 1;
    private static final int MISCELLANEOUS = 10;
    /** TUN/TAP interfaces and autofs. */
    private static final Set<Integer> WRITTEN_MISCELLANEOUS = Set.of(200, 235);
    /** The major numbers of terminals: devices.txt of the kernel. */
    private static final Set<Integer> TERMINALS =
            Set.of(4, 5, 136, 137, 138, 139, 140, 141, 142, 143, 166, 188, 204, 229);

    private static final String CLOSE = "have the job close it, in its suspend hook if need be";

    /** Remedies for kinds that programs use without their users' knowledge. */
    private static final Map<String, String> REMEDIES = Map.of(
            "io_uring",
            "have the program do without io_uring (for Node.js and libuv: UV_USE_IO_URING=0 in its environment), or "
                    + CLOSE,
            "perf_event",
            "end the profiler, or have the job close its counters, in its suspend hook if need be");

    private final boolean writesDevices;
    private final Findings findings = new Findings();

    /** @param writesDevices whether a plugin of CRIU may write devices */
    DescriptorKinds(boolean writesDevices) {
        this.writesDevices = writesDevices;
    }

    @Override
    public void descriptor(Open open) throws IOException {
        String name = open.name();
        if (name.startsWith(ANONYMOUS)) {
            String kind = kindOf(name);
            if (!WRITTEN.contains(kind)) {
                refuse(open, "CRIU cannot write a descriptor of that kind", remedy(kind));
            } else if (kind.equals("eventfd") && SEMAPHORE.matcher(open.info()).find()) {
                refuse(
                        open,
                        "it counts as a semaphore (EFD_SEMAPHORE of eventfd(2)), which CRIU does not write: each read"
                                + " of the copy's would take the whole count",
                        "have the program use an eventfd without that flag, or a semaphore of sem_overview(7)");
            }
        } else if (name.startsWith(SOCKET)) {
            Optional<String> protocol = ProcFiles.socketProtocol(open.path());
            if (protocol.isPresent() && WRITTEN_PROTOCOLS.stream().noneMatch(protocol.get()::startsWith)) {
                refuse(open, "CRIU cannot write a socket of the protocol " + protocol.get(), CLOSE);
            }
        } else if (name.startsWith(SECRET)) {
            refuse(open, "CRIU cannot read secret memory (memfd_secret(2))", CLOSE);
        } else if (open.status().isPresent()) {
            file(open, open.status().get());
        }
    }

    private void file(Open open, FileStatus status) throws IOException {
        if (!open.isInOwnMount() && ProcFiles.filesystemType(open.path()).equals(Optional.of(MESSAGE_QUEUES))) {
            refuse(open, "CRIU cannot write a POSIX message queue", CLOSE);
        } else if (status.isCharacterDevice() && !isWritten(status)) {
            refuse(
                    open,
                    "CRIU cannot write a device of that kind (" + status.major() + ":" + status.minor() + ")",
                    CLOSE);
        } else if (status.isBlockDevice()) {
            refuse(open, "CRIU cannot write a block device", CLOSE);
        }
    }

    private boolean isWritten(FileStatus device) {
        return writesDevices
                || device.major() == MEMORY_DEVICES
                || TERMINALS.contains(device.major())
                || (device.major() == MISCELLANEOUS && WRITTEN_MISCELLANEOUS.contains(device.minor()));
    }

    private void refuse(Open open, String why, String remedy) {
        findings.add(open.holder(), open + ", and " + why, remedy);
    }

    @Override
    public void mapping(Mapped mapped) throws IOException {
        String name = mapped.name();
        String why = "";
        String remedy = CLOSE;
        if (name.startsWith(ANONYMOUS)) {
            why = "CRIU cannot write a mapping of that kind";
            remedy = remedy(kindOf(name));
        } else if (name.startsWith(SECRET)) {
            why = "CRIU cannot read secret memory (memfd_secret(2))";
        } else if (!writesDevices && isDevice(name)) {
            Optional<FileStatus> status = ProcFiles.status(mapped.path());
            why = status.isPresent()
                            && status.get().isCharacterDevice()
                            && status.get().major() != MEMORY_DEVICES
                    ? "CRIU cannot write a mapping of a device of that kind"
                    : "";
        }
        if (!why.isEmpty()) {
            findings.add(mapped.holder(), mapped + ", and " + why, remedy);
        }
    }

    /**
     * Returns true for a device. Shared memory has names in that folder, too, and a rank can have 65,530 mappings of
     * it.
     */
    private static boolean isDevice(String name) {
        return name.startsWith("/dev/") && !name.startsWith("/dev/zero") && !name.startsWith("/dev/shm/");
    }

    private static String kindOf(String name) {
        return name.substring(ANONYMOUS.length()).replace("[", "").replace("]", "");
    }

    private static String remedy(String kind) {
        return REMEDIES.getOrDefault(kind, CLOSE);
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
