package io.ppmr.migration.source;

/** Receives the report of a migration, once, perhaps on another thread than the migration's. */
@FunctionalInterface
interface ReportListener {
    /**
     * Receives the report.
     *
     * @param isOver whether the migration is over; otherwise it occupies the node until then
     */
    void report(MigrationReport report, boolean isOver);
}
