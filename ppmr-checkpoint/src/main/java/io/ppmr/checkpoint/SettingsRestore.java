package io.ppmr.checkpoint;

import io.ppmr.checkpoint.state.ObjectOwner;
import io.ppmr.checkpoint.state.SecurityLabel;
import io.ppmr.checkpoint.state.SocketSettings;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.checkpoint.state.WaitingSignals;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.UnixSocket;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sets in the held copies the settings of their originals' threads and sockets that a restart leaves out. Gives pipes
 * and sockets to their user. A copy whose pipe or socket has another owner is refused. A node may deny a setting, for
 * example because it has other processors. Then the log has the difference, because the job can continue without it.
 * Stateless, for any thread.
 */
final class SettingsRestore {
    private static final Logger LOG = LoggerFactory.getLogger(SettingsRestore.class);
    /** Maximum number of differences that are logged for a rank. */
    private static final int MOST_LOGGED = 10;

    private SettingsRestore() {}

    /**
     * Sets the copies of a rank to the source's record of their originals.
     *
     * @param user the job's user, who alone receives pipes and sockets
     */
    static void restore(HeldRank restored, ProcessPrivileges original, JobUser user) throws CheckpointException {
        if (!original.summary().hasSettings()) {
            return;
        }
        LeftOut leftOut = LeftOut.read(original);
        requireNoForeignSignal(restored, leftOut);
        Map<Integer, ThreadSettings> threads = leftOut.threads();
        Map<Integer, List<SocketSettings>> sockets = leftOut.sockets();
        Map<Integer, List<ObjectOwner>> owners = leftOut.owners();
        List<String> failed = new ArrayList<>();
        List<String> wrong = new ArrayList<>();
        Listeners backlogs = new Listeners();
        for (ProcessIdentity process : restored.processes()) {
            try {
                LivingThread.each(process, thread -> {
                    int number = thread.number();
                    int id = ProcessRights.ownNumber(thread);
                    requireLabel(restored, Optional.ofNullable(leftOut.labels().get(id)), number);
                    ThreadSettings settings = threads.remove(id);
                    if (settings != null) {
                        settings.set(number).forEach(what -> failed.add("thread " + id + " " + what));
                    }
                    for (SocketSettings socket :
                            Objects.requireNonNullElse(sockets.remove(id), List.<SocketSettings>of())) {
                        socket.set(number).forEach(what -> failed.add("process " + id + ": " + what));
                    }
                    for (ObjectOwner owner : Objects.requireNonNullElse(owners.remove(id), List.<ObjectOwner>of())) {
                        // The source names the job's user, but other users of this node receive nothing.
                        if (owner.uid() == user.uid()) {
                            owner.set(number, backlogs).ifPresent(what -> wrong.add("process " + id + ": " + what));
                        }
                    }
                });
            } catch (IOException e) {
                throw new CheckpointException(
                        "the settings of restored PID " + process.pid() + " cannot be set: " + e
                                + ". Remedy: find out why it ended",
                        e);
            }
        }
        // A tool of the site may start a copy with other numbers.
        threads.keySet().forEach(id -> failed.add("no thread is restored as " + id + ", which had settings"));
        sockets.keySet().forEach(id -> failed.add("no process is restored as " + id + ", whose sockets had options"));
        owners.keySet().forEach(id -> failed.add("no process is restored as " + id + ", which had pipes or sockets"));
        if (!wrong.isEmpty()) {
            throw new CheckpointException("the copy of rank " + restored.rank() + " differs from its original: "
                    + String.join("; ", wrong.subList(0, Math.min(wrong.size(), MOST_LOGGED)))
                    + ". Remedy: give the target's service the capabilities of its unit, or name a spare node with the"
                    + " same kernel");
        }
        failed.stream()
                .limit(MOST_LOGGED)
                .forEach(what -> LOG.warn("rank {}: the copy differs from its original: {}", restored.rank(), what));
        if (failed.size() > MOST_LOGGED) {
            LOG.warn("rank {}: {} more differences are not logged", restored.rank(), failed.size() - MOST_LOGGED);
        }
    }

    /** The listening Unix sockets of a rank's processes. The kernel lists them once for each network. */
    private static final class Listeners implements ObjectOwner.Backlogs {
        private static final String SOCKET = "socket:[";

        private final Map<String, Map<Long, UnixSocket>> ofNetworks = new HashMap<>();

        @Override
        public Optional<Integer> of(int process, int descriptor) throws IOException {
            String target =
                    ProcFiles.link("/proc/" + process + "/fd/" + descriptor).orElse("");
            if (!target.startsWith(SOCKET)) {
                return Optional.empty();
            }
            String network = ProcFiles.link("/proc/" + process + "/ns/net").orElse("");
            Map<Long, UnixSocket> listening = ofNetworks.get(network);
            if (listening == null) {
                listening = UnixSocket.inNamespaceOf(Integer.toString(process), UnixSocket::isListening);
                ofNetworks.put(network, listening);
            }
            long inode = Long.parseLong(target.substring(SOCKET.length(), target.length() - 1));
            return Optional.ofNullable(listening.get(inode)).map(UnixSocket::backlog);
        }
    }

    private static void requireLabel(HeldRank restored, Optional<SecurityLabel> label, int thread)
            throws CheckpointException {
        Optional<String> other = label.flatMap(of -> of.otherOf(thread));
        if (other.isPresent()) {
            throw new CheckpointException("the copy of rank " + restored.rank() + " differs from its original: "
                    + other.get() + ". Remedy: load the same policy of the security module on both nodes");
        }
    }

    /** Checks for a foreign signal. Only the first process of a copy has a parent, the tool, that ended. */
    private static void requireNoForeignSignal(HeldRank restored, LeftOut leftOut) throws CheckpointException {
        try {
            for (WaitingSignals signals : leftOut.signals()) {
                Optional<Integer> strange =
                        signals.foreignSignalOf(restored.processes().get(0).pid());
                if (strange.isPresent()) {
                    throw new CheckpointException("the copy of rank " + restored.rank() + " has signal " + strange.get()
                            + " waiting for it, which its original did not get: its first process may have requested"
                            + " a signal at its parent's end (PR_SET_PDEATHSIG of prctl(2)), and the restart's tool"
                            + " is that parent. Remedy: start the job without that (setpriv --pdeathsig), or let its"
                            + " suspend hook cancel the request");
                }
            }
        } catch (IOException e) {
            throw new CheckpointException(
                    "the signals that wait for the copy of rank " + restored.rank() + " cannot be read: " + e
                            + ". Remedy: find out why it ended",
                    e);
        }
    }

    /** The state of a rank that a restart leaves out, by the numbers of its threads and processes. */
    private record LeftOut(
            Map<Integer, ThreadSettings> threads,
            Map<Integer, List<SocketSettings>> sockets,
            Map<Integer, List<ObjectOwner>> owners,
            Map<Integer, SecurityLabel> labels,
            List<WaitingSignals> signals) {
        static LeftOut read(ProcessPrivileges original) throws CheckpointException {
            LeftOut read =
                    new LeftOut(new HashMap<>(), new HashMap<>(), new HashMap<>(), new HashMap<>(), new ArrayList<>());
            try (RightsCursor lines = original.openBehindFiles()) {
                // Threads come last.
                for (String line = lines.next(); line != null && !RightsLine.isThread(line); line = lines.next()) {
                    read.add(line);
                }
            } catch (IOException e) {
                throw ProcessPrivileges.unreadable(e);
            }
            return read;
        }

        private void add(String line) {
            if (RightsLine.isThreadSettings(line)) {
                ThreadSettings settings = RightsLine.threadSettings(line);
                threads.put(settings.id(), settings);
            } else if (RightsLine.isSocketSettings(line)) {
                SocketSettings settings = RightsLine.socketSettings(line);
                sockets.computeIfAbsent(settings.pid(), unknown -> new ArrayList<>())
                        .add(settings);
            } else if (RightsLine.isObjectOwner(line)) {
                ObjectOwner owner = RightsLine.objectOwner(line);
                owners.computeIfAbsent(owner.pid(), unknown -> new ArrayList<>())
                        .add(owner);
            } else if (RightsLine.isSecurityLabel(line)) {
                SecurityLabel label = RightsLine.securityLabel(line);
                labels.put(label.pid(), label);
            } else if (RightsLine.isWaitingSignals(line)) {
                signals.add(RightsLine.waitingSignals(line));
            }
        }
    }
}
