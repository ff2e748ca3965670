package io.ppmr.cli;

import io.ppmr.cli.service.LifeSigns;
import io.ppmr.cli.service.Migrations;
import io.ppmr.source.Cancellation;
import io.ppmr.source.MigrationOrder;
import io.ppmr.source.MigrationProgress;
import io.ppmr.source.MigrationReport;
import io.ppmr.source.SourceService;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Consumer;

/** Moves jobs by the source's service, and lets a service manager know. Immutable, for any thread. */
record ServiceMover(SourceService service, LifeSigns signs) implements Migrations.Mover {

    @Override
    public MigrationReport migrate(
            String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher)
            throws InterruptedException {
        signs.changed();
        MigrationReport report = service.migrate(id, order, cancellation, watcher);
        signs.ended("job " + order.job().name() + " " + report.outcome().name().toLowerCase(Locale.ROOT));
        return report;
    }

    @Override
    public Optional<String> takenUp() {
        return service.underWay();
    }
}
