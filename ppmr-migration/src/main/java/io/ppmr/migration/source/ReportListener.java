package io.ppmr.migration.source;

/** Is told how a migration went, once, by one of these; perhaps on another thread than the migration's. */
interface ReportListener {
    /** Reports early, because clients wait: the migration has the node until its end. */
    void early(MigrationReport report);

    /** Nothing of it is left. */
    void last(MigrationReport report);
}
