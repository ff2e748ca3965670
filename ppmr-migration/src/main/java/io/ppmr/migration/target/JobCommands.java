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
 * Tells a job, by commands of this target's own configuration, that its ranks run here ({@code resumed}), and where all
 * are if this target has to decide without the source ({@code reconnect}). What they are told is the plan as the source
 * has said it, kept in the journal with the vote. Owned by the migration's thread.
 */
final class JobCommands {
    private static final Logger LOG = LoggerFactory.getLogger(JobCommands.class);

    private final TargetContext service;
    private TransactionRecord.JobPlacement placement;

    /** @param records what the journal has of the migration */
    JobCommands(TargetContext service, List<TransactionRecord> records) {
        this.service = service;
        placement = TransactionRecord.last(records, TransactionRecord.JobPlacement.class)
                .orElse(null);
    }

    /** An attempt begins. */
    void begun(Begin begin, int attempt) {
        String moving = begin.moving().stream().map(String::valueOf).collect(Collectors.joining(" "));
        placement = new TransactionRecord.JobPlacement(
                begin.migrationId(), attempt, begin.job(), begin.uid(), begin.gid(), moving, begin.rankNodes());
    }

    /** The vote follows, with whose sync this is on the disk. */
    void keep() {
        if (placement != null) {
            try {
                service.journal().append(placement);
            } catch (IOException e) {
                LOG.warn(
                        "migration {}: a restarted service will not know where its ranks are: {}",
                        placement.migrationId(),
                        e.getMessage());
            }
        }
    }

    /**
     * Copies run here: tells the job where its ranks of this target are, if it has a hook for that. After a restart of
     * the service it may be told again.
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
                "be told that it has moved");
    }

    /** This target has decided without the source, and every copy runs: runs the job's hook, if there is one. */
    void reconnect(String migrationId) {
        if (placement == null) {
            LOG.warn(
                    "migration {}: the places of its ranks are not known here, so the reconnect hook is not run",
                    migrationId);
            return;
        }
        Optional<JobCommand> hook = service.settings().commands().reconnect(placement.job());
        if (hook.isEmpty()) {
            LOG.warn(
                    "migration {}: decided without its source, and there is no [reconnect.{}] here, so job {} is not"
                            + " told where its ranks are: {}",
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
                "communicate again by itself");
    }

    /** @param withoutIt what the job may not do where it fails */
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
            LOG.info("migration {}: job {} is told by {}: {}", migrationId, placement.job(), name, map.lines());
        } catch (IOException | CheckpointException e) {
            LOG.error("migration {}: {}: the job may not {}", migrationId, e.getMessage(), withoutIt);
        } finally {
            WorkDirectories.removeOrWarn(work);
        }
    }
}
