package io.ppmr.checkpoint;

import io.ppmr.os.LibC;
import java.util.Map;
import java.util.TreeSet;

/**
 * Finds the threads that have a table that another one has shown already, such as that of their descriptors: kcmp(2)
 * says so, and puts tables in an order, so that a thousand threads take some ten calls each. On a kernel that has no
 * kcmp, or does not answer, each thread counts as having a table of its own. For one thread; the threads that are asked
 * about are stopped.
 */
final class SharedTables {
    /** Something that threads can share, by its number in kcmp(2). */
    enum TableKind {
        MEMORY(1),
        DESCRIPTORS(2),
        /** The working directory and the root. */
        DIRECTORIES(3);

        private final int number;

        TableKind(int number) {
            this.number = number;
        }
    }

    /** The number of kcmp(2), by {@code os.arch}. */
    private static final Map<String, Integer> SYSTEM_CALL =
            Map.of("amd64", 312, "aarch64", 272, "ppc64le", 354, "s390x", 343, "riscv64", 272);

    private static final int BEFORE = 1;
    private static final int AFTER = 2;

    private final TableKind kind;
    private final int systemCall = SYSTEM_CALL.getOrDefault(System.getProperty("os.arch"), -1);
    private final TreeSet<Integer> seen = new TreeSet<>(this::compare);

    SharedTables(TableKind kind) {
        this.kind = kind;
    }

    /** Returns true unless a thread before it has the same table. */
    boolean isNew(int thread) {
        return seen.add(thread);
    }

    private int compare(int one, int other) {
        if (one == other) {
            return 0;
        }
        long order = systemCall < 0 ? -1 : LibC.CALLS.syscall(systemCall, one, other, kind.number, 0);
        if (order == 0 || order == BEFORE || order == AFTER) {
            return order == AFTER ? 1 : (int) -order;
        }
        // One has ended, or the kernel does not say: then a table is read twice, and none is left out.
        return Integer.compare(one, other);
    }
}
