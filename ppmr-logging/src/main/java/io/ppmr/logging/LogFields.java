package io.ppmr.logging;

/**
 * Names under which a thread says, by SLF4J's {@code MDC}, what its log lines are about. The journal has them as fields
 * of each entry, systemd.journal-fields(7); plain lines do not show them. A new thread inherits them.
 */
public final class LogFields {
    /** The ID of the migration. */
    public static final String MIGRATION = "PPMR_MIGRATION";

    /** The number of the rank. */
    public static final String RANK = "PPMR_RANK";

    /** Whom the thread talks with: HOST:PORT of the other service as this one knows it. */
    public static final String PEER = "PPMR_PEER";

    private LogFields() {}
}
