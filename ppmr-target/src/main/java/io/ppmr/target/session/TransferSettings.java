package io.ppmr.target.session;

import java.nio.file.Path;
import java.time.Duration;

/**
 * The bounds of a transfer.
 *
 * @param stagingDirectory where staging is made
 * @param stagingLimitBytes how large it may become, 0 for none
 * @param prefixesLimitBytes memory for the heads of all files
 * @param stallLimit how long nothing may move before the migration fails
 */
public record TransferSettings(
        Path stagingDirectory, long stagingLimitBytes, long prefixesLimitBytes, Duration stallLimit) {}
