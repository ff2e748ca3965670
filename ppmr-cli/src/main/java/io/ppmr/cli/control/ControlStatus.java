package io.ppmr.cli.control;

import io.ppmr.source.MigrationProgress;

/**
 * What a source is doing.
 *
 * @param busy whether a migration is under way
 * @param job whose; null if none is
 * @param progress how far; null if it has not said so yet
 * @param transport how the bytes travelled last, or may travel, and why; null if nobody says
 */
public record ControlStatus(boolean busy, String job, MigrationProgress progress, String transport) {}
