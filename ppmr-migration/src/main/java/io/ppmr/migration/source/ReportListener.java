package io.ppmr.migration.source;

/** Is told how a migration went, once, by one of these; perhaps on another thread than the migration's. */
interface ReportListener {
    /** Somebody has waited for long: the migration has the node until nothing of it is left. */
    void early(MigrationReport report);

    /** Nothing of it is left. */
    void last(MigrationReport report);
}
