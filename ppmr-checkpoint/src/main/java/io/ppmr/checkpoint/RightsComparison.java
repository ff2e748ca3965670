package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import io.ppmr.checkpoint.ProcessPrivileges.Receiver;
import io.ppmr.checkpoint.sharing.EscapedName;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Compares the privileges and open files of a copy with those of its original. Both are lists in the same order. They
 * are read once or twice, side by side, and only a small part of them is on the heap at a time. For one thread.
 */
final class RightsComparison {
    /** Maximum size of a rank's different rights that are compared with each other, in characters. */
    private static final int MAX_CHARS = 1 << 20;

    private static final int MAX_SHOWN_ROOTS = 4;

    /** Descriptors that any process can make by a system call without a privilege. */
    private static final Set<String> FREE_FOR_ALL = Set.of(
            "pipe",
            "socket",
            "anon_inode:[eventfd]",
            "anon_inode:[eventpoll]",
            "anon_inode:[signalfd]",
            "anon_inode:[timerfd]",
            "anon_inode:inotify");

    private final ProcessPrivileges copy;
    private final ProcessPrivileges original;

    RightsComparison(ProcessPrivileges copy, ProcessPrivileges original) {
        this.copy = copy;
        this.original = original;
    }

    /**
     * Returns a privilege that the copy has and its original does not, or empty if there is none. Files are passed on
     * instead.
     *
     * @param doubtful receives each file that the original did not have open in this way
     */
    Optional<String> firstEscalation(Receiver<OpenFile> doubtful) throws CheckpointException {
        try {
            Optional<String> more = firstEscalationOfThreads();
            return more.isPresent() ? more : firstEscalationOfOthers(doubtful);
        } catch (IOException e) {
            throw ProcessPrivileges.unreadable(e);
        }
    }

    private Optional<String> firstEscalationOfOthers(Receiver<OpenFile> doubtful)
            throws IOException, CheckpointException {
        try (RightsCursor copies = copy.open();
                Originals originals = new Originals(original.open())) {
            // Threads come last.
            for (String line = copies.next(); line != null && !RightsLine.isThread(line); line = copies.next()) {
                List<String> known = originals.withKeyOf(line);
                if (RightsLine.isFile(line)) {
                    OpenFile file = RightsLine.file(line);
                    if (!isCovered(file, known)) {
                        doubtful.take(file);
                    }
                } else if (RightsLine.isRoot(line) && known.isEmpty()) {
                    return Optional.of("its root directory is " + EscapedName.text(RightsLine.named(line))
                            + ", but its original's was " + rootsOfOriginal());
                } else if (RightsLine.isOther(line)
                        && known.isEmpty()
                        && !FREE_FOR_ALL.contains(RightsLine.named(line))) {
                    return Optional.of("it has a descriptor of kind " + EscapedName.text(RightsLine.named(line))
                            + ", but its original had none");
                }
            }
        }
        return Optional.empty();
    }

    /** Returns the first of them, for people. */
    private List<String> rootsOfOriginal() throws IOException, CheckpointException {
        List<String> roots = new ArrayList<>();
        try (RightsCursor originals = original.openBehindFiles()) {
            for (String line = originals.next();
                    line != null && roots.size() < MAX_SHOWN_ROOTS;
                    line = originals.next()) {
                if (RightsLine.isRoot(line)) {
                    roots.add(EscapedName.text(RightsLine.named(line)));
                }
            }
        }
        return roots;
    }

    private boolean isCovered(OpenFile file, List<String> known) {
        return known.stream().anyMatch(line -> RightsLine.file(line).covers(file))
                || (file.path().equals(ProcessPrivileges.UNNAMED_MEMORY)
                        && original.summary().hasSharedMemory());
    }

    /**
     * Returns the first thread that has more than its original. If its number is new, the comparison is with every
     * thread of the rank.
     */
    private Optional<String> firstEscalationOfThreads() throws IOException, CheckpointException {
        // A tool that keeps numbers keeps all of them. Otherwise an equal number is chance, and proves nothing.
        boolean kept = originalsHaveAllNumbers();
        List<ThreadRights> all = kept ? List.of() : different();
        RecentTexts compared = new RecentTexts();
        try (RightsCursor copies = copy.openThreads();
                Originals originals = new Originals(original.openThreads())) {
            for (String line = copies.next(); line != null; line = copies.next()) {
                if (!RightsLine.isThread(line) || (!kept && !compared.isNew(RightsLine.withoutNumber(line)))) {
                    continue;
                }
                if (kept && isTheSame(line, originals.withKeyOf(line))) {
                    continue;
                }
                ThreadRights thread = RightsLine.thread(line);
                List<ThreadRights> candidates = kept
                        ? originals.withKeyOf(line).stream()
                                .map(RightsLine::thread)
                                .toList()
                        : all;
                Optional<String> more = firstEscalation(thread, candidates);
                if (more.isPresent()) {
                    return Optional.of("thread " + thread.id() + ": " + more.get());
                }
            }
        }
        return Optional.empty();
    }

    private static boolean isTheSame(String line, List<String> originals) {
        String rights = RightsLine.withoutNumber(line);
        return originals.stream()
                .anyMatch(original -> RightsLine.withoutNumber(original).equals(rights));
    }

    private static Optional<String> firstEscalation(ThreadRights thread, List<ThreadRights> candidates) {
        Optional<String> first = Optional.empty();
        for (ThreadRights candidate : candidates) {
            Optional<String> more = candidate.escalationOf(thread);
            if (more.isEmpty()) {
                return more;
            }
            first = first.isPresent() ? first : more;
        }
        return first;
    }

    private boolean originalsHaveAllNumbers() throws IOException, CheckpointException {
        try (RightsCursor copies = copy.openThreads();
                Originals originals = new Originals(original.openThreads())) {
            for (String line = copies.next(); line != null; line = copies.next()) {
                if (RightsLine.isThread(line) && originals.withKeyOf(line).isEmpty()) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Returns the rights of the originals' threads without repetitions. */
    private List<ThreadRights> different() throws IOException, CheckpointException {
        Set<String> seen = new LinkedHashSet<>();
        int chars = 0;
        try (RightsCursor originals = original.openThreads()) {
            for (String line = originals.next(); line != null; line = originals.next()) {
                if (RightsLine.isThread(line) && seen.add(RightsLine.withoutNumber(line))) {
                    chars += line.length();
                    requireFew(chars);
                }
            }
        }
        return seen.stream().map(rest -> ThreadRights.parse("0" + rest)).toList();
    }

    private static void requireFew(int chars) throws CheckpointException {
        if (chars > MAX_CHARS) {
            throw new CheckpointException("the threads of one rank have too many different rights to be compared with"
                    + " each other: more than " + MAX_CHARS + " characters of them. Remedy: move the job as several"
                    + " ranks");
        }
    }

    /** The originals' lines, looked up by keys in ascending order. */
    private static final class Originals implements AutoCloseable {
        private final RightsCursor lines;
        private final List<String> group = new ArrayList<>();
        private String key = "";
        private String next;

        Originals(RightsCursor lines) throws IOException {
            this.lines = lines;
            next = lines.next();
        }

        /** Returns the original's lines that this one is compared with. The list is valid until the next call. */
        List<String> withKeyOf(String line) throws IOException, CheckpointException {
            String wanted = RightsLine.key(line);
            if (!wanted.equals(key)) {
                key = wanted;
                group.clear();
                int chars = 0;
                while (next != null && !isBehind(next)) {
                    if (RightsLine.key(next).equals(key)) {
                        group.add(next);
                        chars += next.length();
                        requireFew(chars);
                    }
                    next = lines.next();
                }
            }
            return group;
        }

        private boolean isBehind(String line) {
            return !RightsLine.key(line).equals(key) && line.compareTo(key) > 0;
        }

        @Override
        public void close() throws IOException {
            lines.close();
        }
    }
}
