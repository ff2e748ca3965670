package io.ppmr.cluster;

import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * Has the controllers note the migrations of jobs over several nodes. It has no jobs of its own. Safe for any thread.
 *
 * @param member the service's membership, which begins after this was made
 */
record MovingJobs(Supplier<Optional<ClusterMember>> member) implements JobSource {
    @Override
    public List<JobName> names() {
        return List.of();
    }

    @Override
    public List<JobName> names(String user) {
        return List.of();
    }

    @Override
    public boolean isOwnedBy(String name, String user) {
        return false;
    }

    @Override
    public List<JobName> named(String wanted, Optional<String> onlyOf) {
        return List.of();
    }

    @Override
    public Optional<ConfiguredJob> find(JobName job) {
        return Optional.empty();
    }

    @Override
    public void begins(JobName job, List<InetSocketAddress> targets, boolean withoutCluster) throws RequestException {
        Optional<ClusterMember> cluster = member.get();
        if (cluster.isEmpty()) {
            return;
        }
        try {
            cluster.get().jobs().beginMove(job, targets, withoutCluster);
        } catch (IOException e) {
            throw new RequestException("job " + job + " cannot be moved now: " + e.getMessage(), e);
        }
    }

    @Override
    public void ended(JobName job, Optional<MigrationReport> report, List<InetSocketAddress> targets) {
        member.get().ifPresent(cluster -> {
            // A migration in doubt holds pods, and stays open until these no longer move.
            cluster.jobs().endMove(job, report);
            cluster.podsChanged();
        });
    }
}
