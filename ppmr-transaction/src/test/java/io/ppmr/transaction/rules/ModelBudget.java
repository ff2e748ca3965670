package io.ppmr.transaction.rules;

/**
 * The number of failures of each kind that a search allows. Immutable.
 *
 * @param name the name of the search
 * @param packed two bits for each kind
 */
record ModelBudget(String name, int packed) {
    private static final int MOST = 3;

    static final int CRASHES = 0;
    static final int SOURCE = 1;
    static final int TARGET = 2;
    static final int ORIGINAL = 3;
    static final int COPY = 4;
    static final int FAILURE = 5;
    static final int LINK = 6;
    static final int WINDOW = 7;
    static final int RESOLVE = 8;
    static final int REBOOT = 9;
    static final int CONTINUED = 10;
    /** A target sends Committed, although no target can have committed. */
    static final int FORGED = 11;

    /** Allows no failure at all. */
    static ModelBudget of(String name) {
        return new ModelBudget(name, 0);
    }

    /** Allows that many failures of a kind. */
    ModelBudget with(int kind, int count) {
        if (count < 0 || count > MOST || (packed >> (2 * kind) & MOST) != 0) {
            throw new IllegalArgumentException(count + " failures of kind " + kind);
        }
        return new ModelBudget(name, packed | count << (2 * kind));
    }

    static boolean has(int packed, int kind) {
        return (packed >> (2 * kind) & 3) > 0;
    }

    static int take(int packed, int kind) {
        return packed - (1 << (2 * kind));
    }
}
