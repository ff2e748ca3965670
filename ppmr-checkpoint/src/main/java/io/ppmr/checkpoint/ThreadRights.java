package io.ppmr.checkpoint;

import io.ppmr.linux.Scheduling;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Describes the privileges of one thread, see credentials(7), capabilities(7), namespaces(7), sched(7). Immutable.
 *
 * @param id its number in its own PID namespace
 * @param uids real, effective, saved and filesystem user
 * @param gids real, effective, saved and filesystem group
 * @param groups its supplementary groups
 * @param capabilities its sets in the order of {@link #CAPABILITY_SETS}
 * @param lastCapability its kernel's last capability
 * @param seccomp how its system calls are filtered
 * @param noNewPrivileges whether it can gain no privileges by execve
 * @param nodesNamespaces kinds of namespaces that it shares with the node
 * @param scheduling its priorities and its scheduling policy
 * @param limits soft and hard limits by their names in prlimit(1); unsigned
 */
record ThreadRights(
        int id,
        Set<Integer> uids,
        Set<Integer> gids,
        Set<Integer> groups,
        List<Long> capabilities,
        int lastCapability,
        SeccompState seccomp,
        boolean noNewPrivileges,
        Set<String> nodesNamespaces,
        Scheduling scheduling,
        Map<String, long[]> limits) {
    static final long UNLIMITED = -1;
    static final int SOFT = 0;
    static final int HARD = 1;

    /** The five sets, by their names in {@code /proc/PID/status}. */
    static final List<String> CAPABILITY_SETS = List.of("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb");

    private static final int BOUNDING = 3;
    private static final int CAPABILITY_BITS = 64;
    private static final int SECCOMP_FILTER = 2;
    private static final Set<Integer> REAL_TIME = Set.of(1, 2, 6);
    private static final String NONE = "-";

    /**
     * The filter of system calls.
     *
     * @param mode 0 none, 1 strict, 2 by filters
     * @param filters the number of filters; 0 on a kernel that does not report it
     */
    record SeccompState(int mode, int filters) {
        private boolean filtersLess(SeccompState copy) {
            if (mode != SECCOMP_FILTER || copy.mode != SECCOMP_FILTER) {
                return copy.mode != mode && mode != 0;
            }
            // A kernel that does not report the number of filters reports 0.
            return copy.filters > 0 && copy.filters < filters;
        }
    }

    /** Returns a privilege that a copy's thread has and this original's does not, or empty if there is none. */
    Optional<String> escalationOf(ThreadRights copy) {
        Set<Integer> allGroups = new TreeSet<>(groups);
        allGroups.addAll(gids);
        if (!uids.containsAll(copy.uids)) {
            return Optional.of("it has the user ids " + copy.uids + ", but its original had " + uids);
        }
        if (!allGroups.containsAll(copy.gids) || !allGroups.containsAll(copy.groups)) {
            Set<Integer> more = new TreeSet<>(copy.groups);
            more.addAll(copy.gids);
            more.removeAll(allGroups);
            return Optional.of("it is in the groups " + more + ", but its original was not");
        }
        for (int set = 0; set < CAPABILITY_SETS.size(); set++) {
            long more = copy.capabilities.get(set) & ~reach(capabilities.get(set));
            if (more != 0) {
                return Optional.of("its capabilities " + CAPABILITY_SETS.get(set) + " have " + Long.toHexString(more)
                        + " (capabilities(7), in hexadecimal), but its original did not have these");
            }
        }
        if (seccomp.filtersLess(copy.seccomp)) {
            return Optional.of("its system calls are filtered less than its original's (Seccomp "
                    + copy.seccomp.mode + ", " + copy.seccomp.filters + " filters; its original had " + seccomp.mode
                    + ", "
                    + seccomp.filters + ")");
        }
        if (noNewPrivileges && !copy.noNewPrivileges) {
            return Optional.of("it can gain privileges by execve (NoNewPrivs 0), but its original could not");
        }
        if (!nodesNamespaces.containsAll(copy.nodesNamespaces)) {
            Set<String> more = new TreeSet<>(copy.nodesNamespaces);
            more.removeAll(nodesNamespaces);
            return Optional.of("it lives in the node's own namespaces " + more + ", but its original had others");
        }
        return escalationOfScheduling(copy);
    }

    /** Returns the sets in which it has a capability that it could use or get. The bounding set alone gives none. */
    List<String> setsWith(int capability) {
        List<String> found = new ArrayList<>();
        for (int set = 0; set < CAPABILITY_SETS.size(); set++) {
            if (set != BOUNDING && (capabilities.get(set) >> capability & 1) == 1) {
                found.add(CAPABILITY_SETS.get(set));
            }
        }
        return found;
    }

    private Optional<String> escalationOfScheduling(ThreadRights copy) {
        Scheduling other = copy.scheduling;
        if (other.nice() < scheduling.nice()
                || other.realtimePriority() > scheduling.realtimePriority()
                || (REAL_TIME.contains(other.policy()) && other.policy() != scheduling.policy())) {
            return Optional.of("it is scheduled before its original (nice " + other.nice() + ", real-time priority "
                    + other.realtimePriority() + ", policy " + other.policy() + "; its original had "
                    + scheduling.nice() + ", " + scheduling.realtimePriority() + ", " + scheduling.policy() + ")");
        }
        for (Map.Entry<String, long[]> limit : copy.limits.entrySet()) {
            long[] original = limits.get(limit.getKey());
            // Any process may raise the soft limit up to the hard one, so only the hard one counts.
            if (original != null && Long.compareUnsigned(limit.getValue()[HARD], original[HARD]) > 0) {
                return Optional.of("its hard limit " + limit.getKey() + " is " + shown(limit.getValue()[HARD])
                        + ", but its original's was " + shown(original[HARD]));
            }
        }
        return Optional.empty();
    }

    /** Extends a full set. A set with all of its kernel's capabilities also has those that a newer kernel adds. */
    private long reach(long set) {
        long all = lastCapability + 1 >= CAPABILITY_BITS ? -1L : (1L << (lastCapability + 1)) - 1;
        return (set & all) == all ? -1L : set;
    }

    static String shown(long limit) {
        return limit == UNLIMITED ? "unlimited" : Long.toUnsignedString(limit);
    }

    // ---- as text -----------------------------------------------------------------------------------------------

    /** Returns all fields except its number. */
    String words() {
        List<String> words = new ArrayList<>();
        for (Set<Integer> set : List.of(uids, gids, groups)) {
            words.add(joined(set.stream().map(Integer::toUnsignedString).toList()));
        }
        words.add(joined(capabilities.stream().map(Long::toHexString).toList()));
        words.add(Integer.toString(lastCapability));
        words.add(Integer.toString(seccomp.mode));
        words.add(Integer.toString(seccomp.filters));
        words.add(noNewPrivileges ? "1" : "0");
        words.add(joined(nodesNamespaces));
        words.add(Integer.toString(scheduling.nice()));
        words.add(Integer.toString(scheduling.realtimePriority()));
        words.add(Integer.toString(scheduling.policy()));
        words.add(joined(limits.entrySet().stream()
                .map(limit -> limit.getKey() + "=" + Long.toUnsignedString(limit.getValue()[SOFT]) + ":"
                        + Long.toUnsignedString(limit.getValue()[HARD]))
                .toList()));
        return String.join(" ", words);
    }

    /**
     * Parses a number and, behind a blank, the text of {@link #words}. Throws IllegalArgumentException or
     * IndexOutOfBoundsException if the text is invalid.
     */
    static ThreadRights parse(String text) {
        String[] words = text.split(" ", -1);
        Map<String, long[]> limits = new TreeMap<>();
        for (String limit : split(words[13])) {
            int equals = limit.indexOf('=');
            int colon = limit.indexOf(':');
            limits.put(limit.substring(0, equals), new long[] {
                Long.parseUnsignedLong(limit.substring(equals + 1, colon)),
                Long.parseUnsignedLong(limit.substring(colon + 1))
            });
        }
        List<Long> capabilities = split(words[4]).stream()
                .map(set -> Long.parseUnsignedLong(set, 16))
                .toList();
        if (capabilities.size() != CAPABILITY_SETS.size()) {
            throw new IllegalArgumentException("it has " + capabilities.size() + " sets of capabilities");
        }
        return new ThreadRights(
                Integer.parseInt(words[0]),
                ids(words[1]),
                ids(words[2]),
                ids(words[3]),
                capabilities,
                Integer.parseInt(words[5]),
                new SeccompState(Integer.parseInt(words[6]), Integer.parseInt(words[7])),
                words[8].equals("1"),
                new TreeSet<>(split(words[9])),
                new Scheduling(Integer.parseInt(words[10]), Integer.parseInt(words[11]), Integer.parseInt(words[12])),
                limits);
    }

    private static String joined(Collection<String> words) {
        return words.isEmpty() ? NONE : String.join(",", words);
    }

    private static List<String> split(String word) {
        return word.equals(NONE) ? List.of() : Arrays.asList(word.split(",", -1));
    }

    private static Set<Integer> ids(String word) {
        return split(word).stream().map(Integer::parseUnsignedInt).collect(Collectors.toCollection(TreeSet::new));
    }
}
