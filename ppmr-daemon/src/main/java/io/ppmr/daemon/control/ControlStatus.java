package io.ppmr.daemon.control;

import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.target.Arrival;
import io.ppmr.transaction.operator.OpenMigration;
import java.util.List;

/**
 * The status of a service.
 *
 * @param role source or target
 * @param busy whether a migration is under way
 * @param id which; null if none is
 * @param job whose; null if none is, or at a target
 * @param progress how far; null if it has not said so yet
 * @param last how the last one ended; null if none has since the service's start, or at a target
 * @param health what the health command said last; null without one
 * @param transport how the bytes travelled last, or may travel, and why; null if unknown
 * @param open migrations that are blocked on an unreachable peer, or were recovered after a restart; never null
 * @param waiting the jobs that a trigger has yet to move; never null
 * @param arrivals the migrations that come to a target; null at a source
 */
public record ControlStatus(
        String role,
        boolean busy,
        String id,
        String job,
        MigrationProgress progress,
        MigrationReport last,
        String health,
        String transport,
        List<OpenMigration> open,
        List<String> waiting,
        List<Arrival> arrivals) {
    public ControlStatus {
        open = open == null ? List.of() : List.copyOf(open);
        waiting = waiting == null ? List.of() : List.copyOf(waiting);
    }
}
