package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.RankMap;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.target.TargetSettings.ReconnectHook;
import io.ppmr.protocol.control.ControlMessage.Begin;
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
 * What a target needs to tell a job's library where its ranks are, if it has to decide without the source: the plan as
 * the source has said it, kept in the journal with the vote. Owned by the migration's thread.
 */
final class Reconnection {
    private static final Logger LOG = LoggerFactory.getLogger(Reconnection.class);

    private final TargetContext service;
    private TransactionRecord.Placement placement;

    /** @param records what the journal has of the migration */
    Reconnection(TargetContext service, List<TransactionRecord> records) {
        this.service = service;
        for (TransactionRecord record : records) {
            placement = record instanceof TransactionRecord.Placement known ? known : placement;
        }
    }

    /** An attempt begins. */
    void begun(Begin begin, int attempt) {
        String moving = begin.moving().stream().map(String::valueOf).collect(Collectors.joining(" "));
        placement = new TransactionRecord.Placement(
                begin.migrationId(), attempt, begin.job(), begin.uid(), begin.gid(), moving, begin.places());
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

    /** This target has decided without the source, and every copy runs: runs the job's hook, if there is one. */
    void run(String migrationId) {
        if (placement == null) {
            LOG.warn("migration {}: it is not known here where its ranks are, so nobody is told", migrationId);
            return;
        }
        RankMap map = RankMap.of(placement.places());
        Optional<ReconnectHook> hook = service.settings().reconnect(placement.job());
        if (hook.isEmpty()) {
            LOG.warn(
                    "migration {}: decided without its source, and there is no [reconnect.{}] here, so job {} is not"
                            + " told where its ranks are: {}",
                    migrationId,
                    placement.job(),
                    placement.job(),
                    map.lines());
            return;
        }
        JobUser user = new JobUser(placement.uid(), placement.gid());
        Path work = service.settings().workDirectory().resolve("reconnect-" + migrationId);
        SiteCommand command = new SiteCommand(
                "reconnect", hook.get().words(), Optional.of(user), hook.get().deadline());
        try {
            Map<String, String> environment = new HashMap<>(map.write(work));
            environment.put("PPMR_MIGRATION", migrationId);
            environment.put("PPMR_JOB", placement.job());
            environment.put("PPMR_RANKS", placement.moving());
            command.run(environment, work, service.programs());
            LOG.info("migration {}: job {} is told where its ranks are: {}", migrationId, placement.job(), map.lines());
        } catch (IOException | CheckpointException e) {
            LOG.error("migration {}: {}: the job may not communicate again by itself", migrationId, e.getMessage());
        } finally {
            WorkDirectories.removeOrWarn(work);
        }
    }
}
