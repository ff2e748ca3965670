package io.ppmr.migration.source;

/** Receives the report of a migration, once; perhaps on another thread than the migration's. */
@FunctionalInterface
interface ReportListener {
    /**
     * Receives it.
     *
     * @param isOver whether nothing of the migration is left; else it has the node until then
     */
    void report(MigrationReport report, boolean isOver);
}
