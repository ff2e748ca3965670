package io.ppmr.checkpoint;

import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The node's processes from one scan, which serves all ranks of a migration. It has the relations of parents and
 * children. Each returned process is checked again to be alive and the same, by its start time. For any thread.
 */
public final class ProcessSnapshot {
    private final ProcessTable table;
    private final List<ProcStat> all;
    private final Map<Integer, List<ProcStat>> byParent = new HashMap<>();
    private final Map<Integer, List<ProcStat>> bySession = new HashMap<>();
    private final long startNs;
    private final long endNs;
    private Map<Long, List<ProcessIdentity>> byNamespace;

    ProcessSnapshot(ProcessTable table, List<ProcStat> all, long startNs, long endNs) {
        this.table = table;
        this.all = List.copyOf(all);
        this.startNs = startNs;
        this.endNs = endNs;
        for (ProcStat stat : all) {
            byParent.computeIfAbsent(stat.parent(), unknown -> new ArrayList<>())
                    .add(stat);
            bySession
                    .computeIfAbsent(stat.session(), unknown -> new ArrayList<>())
                    .add(stat);
        }
    }

    /** Returns the table by which it was made. */
    ProcessTable table() {
        return table;
    }

    /** Returns the state of all processes of the node at the scan. */
    List<ProcStat> all() {
        return all;
    }

    /** Returns the time at which the scan ended, on the monotonic clock. */
    long endNs() {
        return endNs;
    }

    /** Returns the duration of the scan. */
    long tookNs() {
        return endNs - startNs;
    }

    /** Returns the process and all its living descendants, itself first, parents before children. */
    public List<ProcessIdentity> tree(ProcessIdentity root) {
        return trees(List.of(root));
    }

    /** Returns the tree of each rank. */
    public Map<Integer, List<ProcessIdentity>> trees(Map<Integer, ProcessIdentity> roots) {
        Map<Integer, List<ProcessIdentity>> trees = new LinkedHashMap<>();
        roots.forEach((rank, root) -> trees.put(rank, tree(root)));
        return trees;
    }

    /** Returns the processes and all their living descendants. */
    public List<ProcessIdentity> trees(Collection<ProcessIdentity> roots) {
        List<ProcessIdentity> found = new ArrayList<>();
        ArrayDeque<Integer> open = new ArrayDeque<>();
        for (ProcessIdentity root : roots) {
            if (table.isAlive(root)) {
                found.add(root);
                open.add(root.pid());
            }
        }
        while (!open.isEmpty()) {
            for (ProcStat child : byParent.getOrDefault(open.remove(), List.of())) {
                addLiving(child, found);
                open.add(child.pid());
            }
        }
        return found;
    }

    /** Returns the state of these processes and all their descendants at the scan. */
    public List<ProcStat> stats(Collection<ProcessIdentity> roots) {
        Map<Integer, Long> starts = new HashMap<>();
        roots.forEach(root -> starts.put(root.pid(), root.startTimeTicks()));
        Map<Integer, ProcStat> found = new LinkedHashMap<>();
        for (ProcStat stat : all) {
            if (Long.valueOf(stat.startTimeTicks()).equals(starts.get(stat.pid()))) {
                found.put(stat.pid(), stat);
            }
        }
        addDescendants(found, found.keySet());
        return List.copyOf(found.values());
    }

    /** Adds the descendants of these PIDs. */
    private void addDescendants(Map<Integer, ProcStat> found, Collection<Integer> pids) {
        ArrayDeque<Integer> open = new ArrayDeque<>(pids);
        while (!open.isEmpty()) {
            for (ProcStat child : byParent.getOrDefault(open.remove(), List.of())) {
                if (found.putIfAbsent(child.pid(), child) == null) {
                    open.add(child.pid());
                }
            }
        }
    }

    private void addLiving(ProcStat stat, Collection<ProcessIdentity> to) {
        table.find(stat.pid())
                .filter(process -> process.startTimeTicks() == stat.startTimeTicks())
                .ifPresent(to::add);
    }

    /** Returns the process, its descendants and the members of its session that still live. */
    List<ProcessIdentity> family(ProcessIdentity root) {
        Map<Integer, ProcStat> family = new LinkedHashMap<>();
        bySession.getOrDefault(root.pid(), List.of()).forEach(member -> family.put(member.pid(), member));
        addDescendants(family, List.of(root.pid()));
        addDescendants(family, List.copyOf(family.keySet()));
        Set<ProcessIdentity> living = new LinkedHashSet<>();
        if (table.isAlive(root)) {
            living.add(root);
        }
        family.values().forEach(stat -> addLiving(stat, living));
        return new ArrayList<>(living);
    }

    /** Returns all living processes of a session. */
    List<ProcessIdentity> inSession(int session) {
        List<ProcessIdentity> members = new ArrayList<>();
        bySession.getOrDefault(session, List.of()).forEach(stat -> addLiving(stat, members));
        return members;
    }

    /** Returns all living processes of a PID namespace, by PID, without nested namespaces. */
    List<ProcessIdentity> inNamespace(long pidNamespace) {
        return namespaces().getOrDefault(pidNamespace, List.of()).stream()
                .filter(table::isAlive)
                .toList();
    }

    private synchronized Map<Long, List<ProcessIdentity>> namespaces() {
        if (byNamespace == null) {
            byNamespace = new HashMap<>();
            List<ProcessIdentity> living = new ArrayList<>();
            // A process that cannot be inspected is in no namespace that this service has made.
            all.forEach(stat -> table.findReadable(stat.pid())
                    .filter(process -> process.startTimeTicks() == stat.startTimeTicks())
                    .ifPresent(living::add));
            for (ProcessIdentity process : living) {
                byNamespace
                        .computeIfAbsent(process.pidNamespace(), unknown -> new ArrayList<>())
                        .add(process);
            }
        }
        return byNamespace;
    }
}
