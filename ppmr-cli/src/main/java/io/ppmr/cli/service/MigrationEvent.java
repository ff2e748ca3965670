package io.ppmr.cli.service;

import io.ppmr.source.MigrationProgress;
import io.ppmr.source.MigrationReport;

/** What is told to those who watch a migration. The last event is an {@link Ended} or a {@link Failed}. */
public sealed interface MigrationEvent {

    /** It goes on. */
    record Going(MigrationProgress progress) implements MigrationEvent {}

    /** It has ended, well or not. */
    record Ended(MigrationReport report) implements MigrationEvent {}

    /** It could not even begin, or broke in a way that no report could be made of. */
    record Failed(String reason) implements MigrationEvent {}
}
