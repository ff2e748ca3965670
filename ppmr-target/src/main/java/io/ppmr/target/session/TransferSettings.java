package io.ppmr.target.session;

import java.nio.file.Path;
import java.time.Duration;

/**
 * The limits of a transfer.
 *
 * @param stagingDirectory the directory of staging files
 * @param stagingLimitBytes their maximum size together, 0 for none
 * @param prefixesLimitBytes the memory for the prefixes of all files
 * @param stallLimit the time without progress after which the migration fails
 */
public record TransferSettings(
        Path stagingDirectory, long stagingLimitBytes, long prefixesLimitBytes, Duration stallLimit) {}
