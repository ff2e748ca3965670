package io.ppmr.checkpoint.sharing;

import io.ppmr.checkpoint.sharing.KernelObject.ObjectKind;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.UnixSocket;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Decides which ranks cannot be moved because of shared objects. A rank is moved separately. Objects of processes
 * outside of it stay behind, and another rank is outside, too. Pure; for one scan and one thread.
 */
public final class SharingRules {
    private static final String STREAM_REMEDY =
            "have the job write to a file of its own (>> FILE, with </dev/null as its" + " input), or close it";

    private final JobHolds look;
    private final Map<KernelObject, List<Hold>> byObject = new HashMap<>();
    private final Map<Long, Set<Long>> connectedTo = new HashMap<>();
    private final Map<Long, Long> acceptedBy = new HashMap<>();

    private SharingRules(JobHolds look) {
        this.look = look;
        for (Hold hold : look.holds()) {
            byObject.computeIfAbsent(hold.object(), unknown -> new ArrayList<>())
                    .add(hold);
        }
        for (UnixSocket socket : look.sockets().values()) {
            if (socket.peer() != 0) {
                connectedTo
                        .computeIfAbsent(socket.peer(), unknown -> new LinkedHashSet<>())
                        .add(socket.inode());
            }
            socket.waiting().forEach(client -> acceptedBy.put(client, socket.inode()));
        }
    }

    /** Returns the reasons not to move, by rank. A rank without one can be moved by these rules. */
    public static Map<Integer, List<Refusal>> refusals(JobHolds look) {
        return new SharingRules(look).all();
    }

    private Map<Integer, List<Refusal>> all() {
        Map<Integer, List<Refusal>> refusals = new HashMap<>();
        for (Reference reference : look.references()) {
            refusal(reference).ifPresent(found -> add(refusals, found));
        }
        for (Hold hold : look.holds()) {
            if (hold.holder().isOfJob()) {
                refusal(hold).ifPresent(found -> add(refusals, found));
            }
        }
        return refusals;
    }

    private static void add(Map<Integer, List<Refusal>> refusals, Refusal found) {
        refusals.computeIfAbsent(found.rank(), unknown -> new ArrayList<>()).add(found);
    }

    private Optional<Refusal> refusal(Hold hold) {
        return switch (hold.object().kind()) {
            case PIPE_INPUT -> otherEnd(hold, ObjectKind.PIPE_OUTPUT, "its data is read by");
            case PIPE_OUTPUT -> otherEnd(hold, ObjectKind.PIPE_INPUT, "its data is written by");
            case SOCKET -> socket(hold);
            case MEMORY -> memory(hold);
            case DESCRIPTION -> description(hold);
            case TERMINAL_MASTER -> otherEnd(hold, ObjectKind.TERMINAL, "the terminal's other end belongs to");
            case TERMINAL -> terminal(hold);
        };
    }

    /** Finds a holder of an object outside of a rank. Other ranks come first, because their remedy is better. */
    private Optional<Hold> outside(KernelObject object, int rank) {
        Hold found = null;
        for (Hold other : byObject.getOrDefault(object, List.of())) {
            if (other.holder().rank() != rank
                    && (found == null || other.holder().isOfJob())) {
                found = other;
            }
        }
        return Optional.ofNullable(found);
    }

    private boolean isInside(KernelObject object, int rank) {
        return byObject.getOrDefault(object, List.of()).stream()
                .anyMatch(other -> other.holder().rank() == rank);
    }

    private static String has(Hold hold, String what) {
        return hold.holder() + " has " + what + " as " + hold.place();
    }

    private Refusal refused(Hold hold, String what, String relation, Hold other, String remedy) {
        return new Refusal(
                hold.holder().rank(),
                has(hold, what) + ", and " + relation + " " + other + ", " + belonging(other.holder()),
                together(hold.holder(), other.holder()) + remedy);
    }

    private static String belonging(Holder other) {
        return other.isOfJob()
                ? "which belongs to rank " + other.rank() + ", and each rank is moved separately"
                : "which is outside of the rank and stays on this node";
    }

    private Optional<Refusal> otherEnd(Hold hold, ObjectKind other, String relation) {
        return outside(hold.object().as(other), hold.holder().rank())
                .map(holder -> refused(
                        hold, kindOf(hold) + " " + EscapedName.text(hold.label()), relation, holder, STREAM_REMEDY));
    }

    private static String kindOf(Hold hold) {
        return switch (hold.object().kind()) {
            case TERMINAL, TERMINAL_MASTER -> "the terminal";
            default -> "the pipe";
        };
    }

    private Optional<Refusal> memory(Hold hold) {
        return outside(hold.object(), hold.holder().rank())
                .map(other -> refused(
                        hold,
                        "shared memory (" + EscapedName.text(hold.label()) + ")",
                        "the same memory belongs to",
                        other,
                        "have the job release that memory before it is moved"));
    }

    private Optional<Refusal> description(Hold hold) {
        return outside(hold.object(), hold.holder().rank())
                .map(other -> refused(
                        hold,
                        EscapedName.text(hold.label()) + " open",
                        "the same open file, with one position in it, belongs to",
                        other,
                        "open a file for each process, or append to it (>> FILE); let programs without input read"
                                + " /dev/null"));
    }

    private Optional<Refusal> terminal(Hold hold) {
        int rank = hold.holder().rank();
        String what = "the terminal " + EscapedName.text(hold.label());
        KernelObject master = hold.object().as(ObjectKind.TERMINAL_MASTER);
        String remedy = "start the job with </dev/null and its output in a file (>> FILE 2>&1)";
        if (isInside(master, rank)) {
            return outside(hold.object(), rank)
                    .map(other -> refused(hold, what, "the same terminal is open in", other, remedy));
        }
        return Optional.of(outside(master, rank)
                .map(other -> refused(hold, what, "its other end belongs to", other, remedy))
                .orElseGet(() -> new Refusal(
                        rank, has(hold, what) + ", and its other end belongs to no process of the rank", remedy)));
    }

    // ---- sockets -------------------------------------------------------------------------------------------------

    private Optional<Refusal> socket(Hold hold) {
        int rank = hold.holder().rank();
        Optional<Hold> same = outside(hold.object(), rank);
        if (same.isPresent()) {
            return Optional.of(refused(
                    hold,
                    "the socket " + EscapedName.text(hold.label()),
                    "the same socket is open in",
                    same.get(),
                    "have one of them close it"));
        }
        UnixSocket socket = look.sockets().get(Long.parseLong(hold.object().id()));
        if (socket == null || look.movableSockets().contains(socket.inode())) {
            return Optional.empty();
        }
        Set<Long> others = new LinkedHashSet<>(connectedTo.getOrDefault(socket.inode(), Set.of()));
        others.addAll(socket.waiting());
        if (socket.peer() != 0) {
            others.add(socket.peer());
        }
        if (acceptedBy.containsKey(socket.inode())) {
            others.add(acceptedBy.get(socket.inode()));
        }
        for (long other : others) {
            Optional<Hold> holder = outside(KernelObject.socket(other), rank);
            if (holder.isPresent()) {
                return Optional.of(
                        refused(hold, named(socket), "its other end belongs to", holder.get(), remedy(socket)));
            }
        }
        return socket.peer() == 0 || isInside(KernelObject.socket(socket.peer()), rank)
                ? Optional.empty()
                : Optional.of(new Refusal(
                        rank,
                        has(hold, named(socket)) + ", and its other end belongs to no process of the rank",
                        remedy(socket)));
    }

    private String named(UnixSocket socket) {
        String name = addressOf(socket);
        return "the Unix socket " + socket.inode() + (name.isEmpty() ? "" : ", with the address " + name);
    }

    /** Returns the address of a connection, which is that of the end which was bound to one. */
    private String addressOf(UnixSocket socket) {
        UnixSocket peer = look.sockets().get(socket.peer());
        String name = !socket.name().isEmpty() || peer == null ? socket.name() : peer.name();
        return name.startsWith("\0")
                ? "@" + EscapedName.text(name.substring(1))
                : EscapedName.text(name.replace("\0", ""));
    }

    private String remedy(UnixSocket socket) {
        String name = addressOf(socket);
        return "have the job close that connection, in its suspend hook if need be"
                + (name.startsWith("/")
                        ? "; or name " + name + " in external_sockets of the checkpointer, if the job copes with a"
                                + " connection that the other end has closed"
                        : "");
    }

    // ---- references ----------------------------------------------------------------------------------------------

    private Optional<Refusal> refusal(Reference reference) {
        Holder holder = reference.holder();
        Holder other = reference.other();
        return switch (reference.kind()) {
            case TRACED ->
                Optional.of(new Refusal(
                        holder.rank(),
                        holder + " is traced (" + reference.place() + ") by " + other + ", and no process has two"
                                + " tracers",
                        "end the debugger or profiler, or detach it, and move the job then"));
            case PIDFD ->
                other.rank() == holder.rank()
                        ? Optional.empty()
                        : Optional.of(new Refusal(
                                holder.rank(),
                                holder + " has a pidfd of " + other + " as " + reference.place() + ", "
                                        + belonging(other),
                                together(holder, other) + "have the job close it"));
            case EPOLL ->
                Optional.of(new Refusal(
                        holder.rank(),
                        holder + " watches by epoll (" + reference.place()
                                + ") an open file that no process of the rank"
                                + " has open under that number"
                                + (other.pid() == 0 ? "" : "; it belongs to " + other + ", " + belonging(other)),
                        "have the job remove a file from its epoll instance before it closes the file"));
            case MOUNT ->
                Optional.of(new Refusal(
                        holder.rank(),
                        holder + " has a file open (" + reference.place() + ") through a mount that is not in its mount"
                                + " namespace, where the copy could not open it",
                        "have the job open its files itself, with </dev/null and >> FILE in the command that it is"
                                + " started by"));
            case LEADER ->
                Optional.of(new Refusal(
                        holder.rank(),
                        holder + " has threads that run and a first thread that ended, and CRIU cannot write such a"
                                + " process",
                        "have the program's first thread wait for the others (pthread_join(3))"));
        };
    }

    // ---- a common ancestor ---------------------------------------------------------------------------------------

    /** Names a process of the job's user that can be moved as one rank with both in it, if there is one. */
    private String together(Holder one, Holder other) {
        Integer user = look.users().get(one.pid());
        if (user == null) {
            return "";
        }
        Set<Integer> above = new LinkedHashSet<>(ancestors(one.pid()));
        for (int candidate : ancestors(other.pid())) {
            ProcStat stat = look.processes().get(candidate);
            if (above.contains(candidate)
                    && stat.session() == candidate
                    && user.equals(look.users().get(candidate))) {
                return "name " + new Holder(candidate, stat.name(), Holder.OUTSIDE) + ", from which both descend and"
                        + " which leads their session, as the one rank of the job; or ";
            }
        }
        return "";
    }

    /** Returns the process and all its ancestors, the nearest first. */
    private List<Integer> ancestors(int pid) {
        List<Integer> found = new ArrayList<>();
        ProcStat stat = look.processes().get(pid);
        while (stat != null && !found.contains(stat.pid())) {
            found.add(stat.pid());
            stat = look.processes().get(stat.parent());
        }
        return found;
    }
}
