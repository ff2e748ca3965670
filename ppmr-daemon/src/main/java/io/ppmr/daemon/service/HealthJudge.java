package io.ppmr.daemon.service;

/**
 * Decides by a row of answers when a node is going, so that a check that flaps does not move jobs about: it takes
 * several bad answers in a row; after one migration has moved the job, several good ones in a row before there can be
 * another; and a rest in any case. One that moved nothing is tried again after the rest while the answers stay bad. For
 * one thread.
 */
final class HealthJudge {
    /** The answer of one call of the command. */
    enum HealthResult {
        WELL,
        GOING,
        /** It could not be run, did not end in time, or was killed: that says nothing about the node. */
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

    /** Returns true if a migration is to start now. */
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

    /** The migration that was started has moved the job, or may have. */
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
