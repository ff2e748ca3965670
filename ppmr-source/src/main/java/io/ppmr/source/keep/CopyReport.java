package io.ppmr.source.keep;

/**
 * What became of the copy that was wanted of a migration's images.
 *
 * @param kept whether it is there
 * @param directory where it is, or was to be
 * @param bytes of all its files, if it is there
 * @param reason why it is not there; empty if it is
 */
public record CopyReport(boolean kept, String directory, long bytes, String reason) {
    /** For people. */
    public String sentence() {
        return kept ? "a copy of " + bytes + " bytes is kept in " + directory : "no copy is kept: " + reason;
    }
}
