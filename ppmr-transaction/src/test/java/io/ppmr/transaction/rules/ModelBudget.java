package io.ppmr.transaction.rules;

/** The number of failures of each kind that a search allows, and the allowed ends of a fence. */
record ModelBudget(
        String name,
        int crashes,
        int sourceLosses,
        int targetLosses,
        int originalDeaths,
        int copyDeaths,
        int failures,
        int linkLosses,
        int fenceWindows,
        int resolves,
        int reboots,
        int continued,
        int forged) {
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

    /** Packs the budget, two bits for each kind. */
    int packed() {
        int[] all = {
            crashes,
            sourceLosses,
            targetLosses,
            originalDeaths,
            copyDeaths,
            failures,
            linkLosses,
            fenceWindows,
            resolves,
            reboots,
            continued,
            forged
        };
        int packed = 0;
        for (int i = 0; i < all.length; i++) {
            packed |= all[i] << (2 * i);
        }
        return packed;
    }

    static boolean has(int packed, int kind) {
        return (packed >> (2 * kind) & 3) > 0;
    }

    static int take(int packed, int kind) {
        return packed - (1 << (2 * kind));
    }
}
