package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.RankMap;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.target.TargetSettings.JobCommand;
import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Notifies a job by commands of this target's configuration: {@code resumed} when its ranks run here, and
 * {@code reconnect} if this target decides without the source. They get the plan that the source has sent, which is
 * kept in the journal with the vote. Owned by the migration's thread.
 */
final class JobCommands {
    private static final Logger LOG = LoggerFactory.getLogger(JobCommands.class);

    private final TargetContext service;
    private TransactionRecord.JobPlacement placement;

    /** @param records the migration's records in the journal */
    JobCommands(TargetContext service, List<TransactionRecord> records) {
        this.service = service;
        placement = TransactionRecord.last(records, TransactionRecord.JobPlacement.class)
                .orElse(null);
    }

    /** Notes the plan of an attempt that begins. */
    void begun(Begin begin, int attempt) {
        String moving = begin.placement().moving().stream().map(String::valueOf).collect(Collectors.joining(" "));
        placement = new TransactionRecord.JobPlacement(
                begin.migrationId(),
                attempt,
                begin.job(),
                begin.uid(),
                begin.gid(),
                moving,
                begin.placement().rankNodes());
    }

    /** Records the plan. The vote's sync follows, and brings it to the disk. */
    void recordPlacement() {
        if (placement != null) {
            try {
                service.journal().append(placement);
            } catch (IOException e) {
                LOG.warn(
                        "migration {}: the places of its ranks could not be recorded for a restart of the service: {}",
                        placement.migrationId(),
                        e.getMessage());
            }
        }
    }

    /**
     * Runs the job's resumed hook, if there is one, because its copies run here. It gets the places of its ranks on
     * this target. After a restart of the service it may run again.
     */
    void resumed(String migrationId, List<PlannedRank> here) {
        Optional<JobCommand> hook = placement == null
                ? Optional.empty()
                : service.settings().commands().resumed(placement.job());
        if (hook.isEmpty()) {
            return;
        }
        String ranks = here.stream().map(rank -> String.valueOf(rank.rank())).collect(Collectors.joining(" "));
        String pids = here.stream()
                .map(rank -> rank.rank() + ":" + rank.processes().get(0).pid())
                .collect(Collectors.joining(" "));
        run(
                "resumed",
                hook.get(),
                migrationId,
                Map.of("PPMR_RANKS", ranks, "PPMR_PIDS", pids),
                "receive the new place of its ranks");
    }

    /** Runs the job's reconnect hook, if there is one. This target decided without the source, and every copy runs. */
    void reconnect(String migrationId) {
        if (placement == null) {
            LOG.warn(
                    "migration {}: the reconnect hook was not run, because the places of its ranks are unknown here",
                    migrationId);
            return;
        }
        Optional<JobCommand> hook = service.settings().commands().reconnect(placement.job());
        if (hook.isEmpty()) {
            LOG.warn(
                    "migration {}: decided without its source, and this configuration has no [reconnect.{}], so job"
                            + " {} does"
                            + " not receive the places of its ranks: {}",
                    migrationId,
                    placement.job(),
                    placement.job(),
                    RankMap.of(placement.places()).lines());
            return;
        }
        run(
                "reconnect",
                hook.get(),
                migrationId,
                Map.of("PPMR_RANKS", placement.moving()),
                "communicate again without help");
    }

    /** @param withoutIt what the job may miss if the command fails */
    private void run(String name, JobCommand hook, String migrationId, Map<String, String> about, String withoutIt) {
        RankMap map = RankMap.of(placement.places());
        JobUser user = new JobUser(placement.uid(), placement.gid());
        Path work = service.settings().node().workDirectory().resolve(name + "-" + migrationId);
        SiteCommand command = new SiteCommand(name, hook.words(), Optional.of(user), hook.deadline());
        try {
            Map<String, String> environment = new HashMap<>(map.write(work));
            environment.put("PPMR_MIGRATION", migrationId);
            environment.put("PPMR_JOB", placement.job());
            environment.putAll(about);
            command.run(environment, work, service.programs());
            LOG.info("migration {}: job {} notified by {}: {}", migrationId, placement.job(), name, map.lines());
        } catch (IOException | CheckpointException e) {
            LOG.error("migration {}: {}: the job may not {}", migrationId, e.getMessage(), withoutIt);
        } finally {
            WorkDirectories.removeOrWarn(work);
        }
    }
}
