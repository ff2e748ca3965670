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
 * @param busy whether a migration runs
 * @param id its name, or null for none
 * @param job its job, or null for none, or at a target
 * @param progress its progress, or null before its first report
 * @param last the report of the last migration, or null for none since the service's start, or at a target
 * @param health the last state of the health command, or null without one
 * @param transport the transport of the last or the next migration, with the reason, or null if unknown
 * @param open migrations that are blocked on an unreachable peer, or were recovered after a restart, never null
 * @param waiting the jobs that a trigger has yet to move, never null
 * @param arrivals the migrations that arrive at a target, or null at a source
 * @param installed the version of the package that was installed since this service started, or null if it runs in it
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
        List<Arrival> arrivals,
        String installed) {
    public ControlStatus {
        open = open == null ? List.of() : List.copyOf(open);
        waiting = waiting == null ? List.of() : List.copyOf(waiting);
    }
}
