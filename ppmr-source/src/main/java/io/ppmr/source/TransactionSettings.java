package io.ppmr.source;

import io.ppmr.checkpoint.Fence;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

/**
 * What bounds a source's migrations as transactions.
 *
 * @param journal the directory of the journal
 * @param pauseBudget how long the originals may be held before a migration is rolled back
 * @param attempts how many targets are tried in all for the same ranks
 * @param fence how a lost target is proved off; without it its voters are waited for
 */
public record TransactionSettings(Path journal, Duration pauseBudget, int attempts, Optional<Fence> fence) {}
