package io.ppmr.daemon.service;

/**
 * Decides from consecutive answers that a node is failing, with hysteresis. A migration starts after several bad
 * answers in a row. After a migration that moved the job, the next one needs several good answers in a row first. Each
 * further migration needs the cool-down time. If a migration moved nothing, it is repeated after that time while the
 * answers stay bad. It is for one thread.
 */
final class HealthJudge {
    /** The answer of a call of the command. */
    enum HealthResult {
        WELL,
        GOING,
        /** It could not run, did not end in time, or was killed: no information about the node. */
        UNKNOWN
    }

    private final int failures;
    private final int recoveries;
    private final long cooldownNs;
    private int badInARow;
    private int goodInARow;
    private boolean moved;
    private boolean everFired;
    private long lastFiredNs;

    HealthJudge(HealthTrigger.Settings settings) {
        failures = settings.healthFailures();
        recoveries = settings.healthRecoveries();
        cooldownNs = settings.healthCooldown().toNanos();
    }

    /** Returns true if a migration must start now. */
    boolean fires(HealthResult answer, long nowNs) {
        switch (answer) {
            case WELL -> {
                badInARow = 0;
                goodInARow++;
                moved &= goodInARow < recoveries;
            }
            case GOING -> {
                goodInARow = 0;
                badInARow++;
            }
            case UNKNOWN -> {
                // A result without meaning breaks both series.
                badInARow = 0;
                goodInARow = 0;
            }
        }
        if (badInARow < failures || moved || (everFired && nowNs - lastFiredNs < cooldownNs)) {
            return false;
        }
        everFired = true;
        lastFiredNs = nowNs;
        return true;
    }

    /** Records that the started migration moved the job, or may have moved it. */
    void moved() {
        moved = true;
    }

    /** Describes its state, for the log and the status. */
    String state() {
        if (moved) {
            return "has moved the job; ready again after " + (recoveries - Math.min(goodInARow, recoveries))
                    + " more good answers";
        }
        return badInARow > 0
                ? "failing, " + badInARow + " in a row, " + failures + " start a migration"
                : goodInARow > 0 ? "well, " + goodInARow + " in a row" : "no answer";
    }
}
