package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobView.RestartView;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

/**
 * The nodes and the times of a job's last restart or recovery, as the controller saw it that has carried it out. The
 * controller's thread owns it.
 */
final class RestartTimes {
    private RestartView view = RestartView.NONE;
    /** The nodes that left the record since the job ran whole. */
    private final Set<String> lost = new TreeSet<>();

    private long sinceNs;

    RestartView view() {
        return view;
    }

    /** Notes a change of the job. */
    void changed(JobState before, JobState next, long nowNs, long nowMs) {
        JobPhase from = before.record().phase();
        JobPhase to = next.record().phase();
        Set<String> gone = new TreeSet<>(before.places().keySet());
        gone.removeAll(next.places().keySet());
        if (next.record().uncertain()) {
            lost.addAll(gone);
        }
        long number = next.record().numbers().restart();
        if (to.isRestart() && number != before.record().numbers().restart()) {
            view = begun(before, next, nowMs);
            sinceNs = nowNs;
        } else if (from != to && view.number() == number) {
            long ms = TimeUnit.NANOSECONDS.toMillis(nowNs - sinceNs);
            sinceNs = nowNs;
            view = switch (from) {
                case ENDING -> view.ended(ms);
                case RESTARTING -> view.restored(ms);
                case RELEASING -> view.released(ms);
                default -> view;
            };
        }
        if (to == JobPhase.RUNNING && !next.record().uncertain()) {
            lost.clear();
        }
    }

    private RestartView begun(JobState before, JobState next, long nowMs) {
        String id = next.record().set();
        long lostWorkMs = next.sets().stream()
                .filter(set -> set.id().equals(id))
                .mapToLong(set -> Math.max(0, nowMs - set.takenAtMs()))
                .findFirst()
                .orElse(0);
        Set<String> gone = new TreeSet<>(lost);
        gone.removeAll(next.plan().keySet());
        Set<String> spares = new TreeSet<>(next.plan().keySet());
        spares.removeAll(before.places().keySet());
        return new RestartView(
                next.record().numbers().restart(),
                id,
                TimeUnit.MILLISECONDS.toSeconds(lostWorkMs),
                List.copyOf(gone),
                List.copyOf(spares),
                0,
                0,
                0);
    }
}
