package io.ppmr.checkpoint;

import io.ppmr.checkpoint.state.ObjectOwner;
import io.ppmr.checkpoint.state.SecurityLabel;
import io.ppmr.checkpoint.state.SocketSettings;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.checkpoint.state.WaitingSignals;
import io.ppmr.os.ProcFiles;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.UnixSocket;
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
 * Gives copies, which are held, the settings of their originals' threads and sockets that a restart leaves out, and
 * gives their user their pipes and sockets. A node may deny a setting, as it has other processors: then the log says
 * what the copy has not, since the job can continue without. Stateless, for any thread.
 */
final class SettingsRestore {
    private static final Logger LOG = LoggerFactory.getLogger(SettingsRestore.class);
    /** Of a rank that has more the first ones are told. */
    private static final int MOST_TOLD = 10;

    private SettingsRestore() {}

    /**
     * Gives the copies of a rank what the source read of their originals.
     *
     * @param user the job's user, who alone is given pipes and sockets
     */
    static void restore(HeldRank restored, ProcessPrivileges original, JobUser user) throws CheckpointException {
        if (!original.summary().hasSettings()) {
            return;
        }
        LeftOut leftOut = LeftOut.read(original);
        requireNoStrangeSignal(restored, leftOut);
        Map<Integer, ThreadSettings> threads = leftOut.threads();
        Map<Integer, List<SocketSettings>> sockets = leftOut.sockets();
        Map<Integer, List<ObjectOwner>> owners = leftOut.owners();
        List<String> failed = new ArrayList<>();
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
                        // A source says whose job it is; it gives nothing to other users of this node.
                        if (owner.uid() == user.uid()) {
                            owner.set(number, backlogs).ifPresent(what -> failed.add("process " + id + ": " + what));
                        }
                    }
                });
            } catch (IOException e) {
                throw new CheckpointException(
                        "the settings of restored PID " + process.pid() + " cannot be set: " + e
                                + ". Remedy: look at why it ended",
                        e);
            }
        }
        threads.keySet().forEach(id -> failed.add("no thread is restored as " + id + ", which had settings"));
        sockets.keySet().forEach(id -> failed.add("no process is restored as " + id + ", whose sockets had options"));
        owners.keySet().forEach(id -> failed.add("no process is restored as " + id + ", which had pipes or sockets"));
        failed.stream()
                .limit(MOST_TOLD)
                .forEach(what -> LOG.warn("rank {}: the copy is not as its original was: {}", restored.rank(), what));
        if (failed.size() > MOST_TOLD) {
            LOG.warn("rank {}: the same holds for {} more", restored.rank(), failed.size() - MOST_TOLD);
        }
    }

    /** The Unix sockets that listen where a rank's processes are; the kernel lists them once for each network. */
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
            throw new CheckpointException("the copy of rank " + restored.rank() + " is more than its original was: "
                    + other.get() + ". Remedy: load the same policy of the security module on both nodes");
        }
    }

    /** The first process of a copy alone was made by a tool that has ended. */
    private static void requireNoStrangeSignal(HeldRank restored, LeftOut leftOut) throws CheckpointException {
        try {
            for (WaitingSignals signals : leftOut.signals()) {
                Optional<Integer> strange =
                        signals.strangeOf(restored.processes().get(0).pid());
                if (strange.isPresent()) {
                    throw new CheckpointException("the copy of rank " + restored.rank() + " has signal " + strange.get()
                            + " waiting for it, which its original did not get: its first process may have asked"
                            + " for a signal at its parent's end (PR_SET_PDEATHSIG of prctl(2)), and the restart's tool"
                            + " is that parent. Remedy: start the job without that (setpriv --pdeathsig), or have it"
                            + " give that up in its suspend hook");
                }
            }
        } catch (IOException e) {
            throw new CheckpointException(
                    "the signals that wait for the copy of rank " + restored.rank() + " cannot be read: " + e
                            + ". Remedy: look at why it ended",
                    e);
        }
    }

    /** The state that a restart has left out of a rank, by the numbers of its threads and processes. */
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
