package io.ppmr.migration.source;

import io.ppmr.linux.HostPort;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Queue;

/**
 * Plans the next attempt of a migration. The next spare in the list replaces a target that failed, as long as attempts,
 * pause budget and the checkpointer's ability allow it. Owned by the migration's worker.
 */
final class NextAttempts {
    private final MigrationLimits limits;
    private final boolean checkpointsHeldRanks;
    private final Queue<InetSocketAddress> spares;
    /** The plan with the first of the spares. */
    private MigrationPlan next;

    private boolean isRepeated;
    private boolean mayRepeat = true;
    private final List<String> passedOver = new ArrayList<>();
    private int begun;

    /**
     * @param checkpointsHeldRanks whether a held rank can be checkpointed again
     *
     * @param spares the spare nodes, in their order
     */
    NextAttempts(MigrationLimits limits, boolean checkpointsHeldRanks, List<InetSocketAddress> spares) {
        this.limits = limits;
        this.checkpointsHeldRanks = checkpointsHeldRanks;
        this.spares = new ArrayDeque<>(spares);
    }

    /** Notes that a target declined its ranks. */
    void notTaken(Attempt.NotTaken not) {
        passedOver.add(not.reason());
    }

    /** Returns true if a held rank can be checkpointed again. */
    boolean checkpointsHeldRanks() {
        return checkpointsHeldRanks;
    }

    /** Notes that an attempt has begun to change the originals. */
    void begun() {
        begun++;
    }

    /** Returns true while no attempt has begun to change the originals. */
    boolean noneBegun() {
        return begun == 0;
    }

    /** Returns the reason why the migration failed, with all targets that were passed over. */
    String reason(String last) {
        return begun == 0 && passedOver.size() > 1
                ? "no spare node accepts the job: " + String.join("; ", passedOver)
                : last;
    }

    /**
     * Returns true if another attempt may follow.
     *
     * @param place place of the target that failed; negative if none did
     * @param pausedNs time for which the job has been stopped
     * @param held whether originals are held, so that a checkpoint of a held rank is needed
     */
    boolean mayFollow(int place, long pausedNs, boolean held) {
        return place >= 0
                && begun < limits.attempts()
                && pausedNs < limits.pauseBudget().toNanos()
                && (!held || checkpointsHeldRanks);
    }

    /**
     * Returns the plan with the next spare instead of the failed target, or empty if no spare is left. A spare is used
     * up when an attempt begins with it, because a failure may be evaluated twice before.
     */
    Optional<MigrationPlan> plan(MigrationPlan failed, int place) {
        InetSocketAddress spare = spares.peek();
        while (spare != null && failed.addresses().contains(HostPort.participant(spare))) {
            spares.remove();
            spare = spares.peek();
        }
        next = spare == null ? null : failed.replaced(place, spare);
        isRepeated = false;
        return Optional.ofNullable(next);
    }

    /** Returns the same plan, for an attempt that failed before it changed the originals; only one follows so. */
    Optional<MigrationPlan> again(MigrationPlan failed) {
        next = mayRepeat ? failed : null;
        isRepeated = mayRepeat;
        return Optional.ofNullable(next);
    }

    /** Returns the plan for the attempt with these participants, which begins now. */
    Optional<MigrationPlan> taken(List<String> participants) {
        MigrationPlan taken = next;
        next = null;
        if (taken == null || !taken.addresses().equals(participants)) {
            return Optional.empty();
        }
        if (isRepeated) {
            mayRepeat = false;
        } else {
            spares.remove();
        }
        return Optional.of(taken);
    }
}
