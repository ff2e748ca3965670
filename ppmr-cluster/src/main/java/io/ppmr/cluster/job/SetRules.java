package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobSet.SetState;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The rules of a job's sets, as pure functions: which are kept, and which one is copied to the second place.
 *
 * <p>One set is copied at a time. When it is whole there it is safe, and the newest set follows. So a job whose
 * checkpoints are more frequent than copies has safe sets, too. The newest safe set and the one that is copied are
 * never removed. Lists of sets have the oldest first.
 */
final class SetRules {
    private SetRules() {}

    /**
     * Returns the sets after a checkpoint.
     *
     * @param hasCopies whether the job has a second place
     * @param keep how many of the newest sets are kept
     */
    static List<JobSet> withNew(List<JobSet> sets, JobSet added, boolean hasCopies, int keep) {
        List<JobSet> all = new ArrayList<>();
        // The pods of an earlier incarnation are gone, and perhaps the node with their images.
        sets.forEach(set -> all.add(
                set.state() == SetState.COPYING && set.incarnation() != added.incarnation()
                        ? set.in(SetState.LOCAL)
                        : set));
        all.add(added);
        return kept(hasCopies ? withNext(all) : all, keep);
    }

    /** Returns the sets when all images of the one that is copied are at the second place. */
    static List<JobSet> copied(List<JobSet> sets, String id, int keep) {
        return kept(withNext(changed(sets, id, SetState.SAFE)), keep);
    }

    /** Returns the sets when a copy did not advance: a newer set takes its place, if there is one, or the next one. */
    static List<JobSet> ended(List<JobSet> sets, String id, int keep) {
        boolean isNewest = !sets.isEmpty() && sets.get(sets.size() - 1).id().equals(id);
        List<JobSet> all = changed(sets, id, SetState.LOCAL);
        return kept(isNewest ? all : withNext(all), keep);
    }

    /** Returns the set that is copied now. */
    static Optional<JobSet> copying(List<JobSet> sets) {
        return sets.stream().filter(set -> set.state() == SetState.COPYING).findFirst();
    }

    private static List<JobSet> changed(List<JobSet> sets, String id, SetState state) {
        return sets.stream()
                .map(set -> set.id().equals(id) && set.state() == SetState.COPYING ? set.in(state) : set)
                .toList();
    }

    /** The newest set is copied if no other one is, and if it is not safe. */
    private static List<JobSet> withNext(List<JobSet> sets) {
        List<JobSet> all = new ArrayList<>(sets);
        int newest = all.size() - 1;
        if (newest >= 0 && copying(all).isEmpty() && all.get(newest).state() == SetState.LOCAL) {
            all.set(newest, all.get(newest).in(SetState.COPYING));
        }
        return all;
    }

    private static List<JobSet> kept(List<JobSet> sets, int keep) {
        Optional<JobSet> safe =
                sets.stream().filter(set -> set.state() == SetState.SAFE).reduce((earlier, later) -> later);
        int first = Math.max(0, sets.size() - keep);
        List<JobSet> kept = new ArrayList<>();
        for (int i = 0; i < sets.size(); i++) {
            JobSet set = sets.get(i);
            boolean isLastSafe = safe.isPresent() && safe.get().equals(set);
            if (i >= first || isLastSafe || set.state() == SetState.COPYING) {
                kept.add(set);
            }
        }
        return kept;
    }
}
