package io.ppmr.cluster.job;

import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * All that a controller knows of a job: its record, its places and sets, which are in the ensemble, too, and the
 * reports of the present round, which members repeat. Immutable.
 *
 * @param record the record
 * @param places the pods of each node
 * @param plan in RESTARTING and RELEASING the pods that each node restores, else empty
 * @param sets its sets, the oldest first
 * @param reports the reports of the present round
 */
record JobState(
        JobRecord record,
        Map<String, Set<String>> places,
        Map<String, Set<String>> plan,
        List<JobSet> sets,
        RoundReports reports) {
    /**
     * The reports of a checkpoint or of a restart.
     *
     * @param done the nodes that have done the present step: held their pods, restored them, or released them
     * @param images in CHECKPOINT the images of each node
     */
    record RoundReports(Set<String> done, Map<String, NodeImages> images) {
        static final RoundReports NONE = new RoundReports(Set.of(), Map.of());

        RoundReports {
            // One copy for each report of a thousand nodes: hash tables of this kind are copied without a comparison.
            done = Collections.unmodifiableSet(new HashSet<>(done));
            images = Collections.unmodifiableMap(new HashMap<>(images));
        }

        RoundReports withDone(String host) {
            Set<String> all = new HashSet<>(done);
            all.add(host);
            return new RoundReports(all, images);
        }

        RoundReports withImages(String host, NodeImages of) {
            Map<String, NodeImages> all = new HashMap<>(images);
            all.put(host, of);
            return new RoundReports(done, all);
        }
    }

    JobState {
        places = Map.copyOf(places);
        plan = Map.copyOf(plan);
        sets = sets.stream().sorted(Comparator.comparingLong(JobSet::round)).toList();
    }

    static JobState of(JobRecord record) {
        return new JobState(record, Map.of(), Map.of(), List.of(), RoundReports.NONE);
    }

    JobState with(JobRecord next) {
        return new JobState(next, places, plan, sets, RoundReports.NONE);
    }

    JobState withReports(RoundReports next) {
        return new JobState(record, places, plan, sets, next);
    }

    JobState placed(Map<String, Set<String>> next) {
        return new JobState(record, next, plan, sets, reports);
    }

    JobState planned(Map<String, Set<String>> next) {
        return new JobState(record, places, next, sets, reports);
    }

    JobState withSets(List<JobSet> next) {
        return new JobState(record, places, plan, next, reports);
    }

    /** Returns the number of pods that are registered. One that moves may be registered on two nodes. */
    int registered() {
        if (record.moves().isEmpty()) {
            return places.values().stream().mapToInt(Set::size).sum();
        }
        return (int) places.values().stream().flatMap(Set::stream).distinct().count();
    }
}
