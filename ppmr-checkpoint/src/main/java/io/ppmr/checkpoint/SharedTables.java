package io.ppmr.checkpoint;

import io.ppmr.linux.LibC;
import java.util.Map;
import java.util.TreeSet;

/**
 * Finds the threads that share a table with an earlier one, such as that of their descriptors, by kcmp(2). The call
 * also puts tables in an order, so that a thousand threads need some ten calls each. On a kernel without a working
 * kcmp, each thread counts as having its own table. For one thread. The examined threads are stopped.
 */
final class SharedTables {
    /** A table that threads can share, with its number in kcmp(2). */
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

    /** Returns true unless an earlier thread has the same table. */
    boolean isNew(int thread) {
        return seen.add(thread);
    }

    /** Returns true if two threads are known to have the same table. Any thread. */
    boolean isSame(int one, int other) {
        return systemCall >= 0 && LibC.CALLS.syscall(systemCall, one, other, kind.number, 0) == 0;
    }

    private int compare(int one, int other) {
        if (one == other) {
            return 0;
        }
        long order = systemCall < 0 ? -1 : LibC.CALLS.syscall(systemCall, one, other, kind.number, 0);
        if (order == 0 || order == BEFORE || order == AFTER) {
            return order == AFTER ? 1 : (int) -order;
        }
        // A thread ended, or the kernel does not answer. Then a table is read twice, and none is left out.
        return Integer.compare(one, other);
    }
}
