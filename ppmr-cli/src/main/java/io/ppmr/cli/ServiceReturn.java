package io.ppmr.cli;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.MigrationText;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Follows a migration whose service ended during it. Shows the last known state, and waits until the service is back
 * and recovers the migration. Then waits for the end of the migration. It is for one thread.
 */
final class ServiceReturn {
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(90);
    /** The time that a migration may be unknown between its end and its record in the journal. */
    private static final long UNKNOWN_NS = TimeUnit.SECONDS.toNanos(5);

    private final Path socket;
    private final String configuration;
    private final MigrationQueue.Started started;
    private final ProgressView view;
    private long unknownSinceNs;

    /**
     * Follows one migration.
     *
     * @param socket the service's
     * @param configuration the placeholder for its configuration in shown commands
     * @param started the migration
     * @param view shows lines to people
     */
    ServiceReturn(Path socket, String configuration, MigrationQueue.Started started, ProgressView view) {
        this.socket = socket;
        this.configuration = configuration;
        this.started = started;
        this.view = view;
    }

    /**
     * Waits and shows how it ended.
     *
     * @param last the progress at the end of the service, or null if the service had not reported any
     * @param returnLimit how long to wait for the service
     * @param endLimit how long to wait for the migration's end once the service is back
     * @throws CommandFailure if the result of the migration is unknown
     */
    ExitCode follow(MigrationProgress last, Duration returnLimit, Duration endLimit) throws CommandFailure {
        view.line("the service at " + socket + " ended while it moved job " + started.job() + ": migration "
                + started.id() + ", " + (last == null ? "starting" : "last seen: " + MigrationText.of(last)));
        view.line("  its journal holds what was decided; its next start continues from there");
        view.line("  start it: systemctl start ppmr-source, or ppmr source --config " + configuration
                + " (this command waits " + returnLimit.toSeconds() + " s)");
        boolean back = false;
        long deadlineNs = System.nanoTime() + returnLimit.toNanos();
        while (System.nanoTime() - deadlineNs < 0) {
            try {
                Optional<ExitCode> end = look();
                if (end.isPresent()) {
                    return end.get();
                }
                if (!back) {
                    back = true;
                    deadlineNs = System.nanoTime() + endLimit.toNanos();
                    view.line("the service is back and continues migration " + started.id());
                }
            } catch (IOException e) {
                // It is still away, or ends once more: then the time that is left counts for its next start.
                if (back) {
                    back = false;
                    deadlineNs = System.nanoTime() + returnLimit.toNanos();
                }
            }
            LockSupport.parkNanos(LOOK_NS);
        }
        throw new CommandFailure(
                ExitCode.FAILED,
                (back
                                ? "migration " + started.id() + " is not over after " + endLimit.toSeconds()
                                        + " s. ppmr status names the peer it waits for"
                                : "the service has not come back within " + returnLimit.toSeconds()
                                        + " s, so the result of migration " + started.id() + " of job "
                                        + started.job()
                                        + " is not known. Until it is back, ranks may be stopped here or at the"
                                        + " target. Start it: systemctl start ppmr-source")
                        + ". Then: ppmr show " + started.id() + " --config " + configuration);
    }

    /** Queries a service that is back. Empty while the migration is not over. */
    private Optional<ExitCode> look() throws IOException, CommandFailure {
        ControlStatus status;
        try (ControlClient client = new ControlClient(socket)) {
            status = client.status();
        }
        if (started.id().equals(status.id())
                || status.open().stream().anyMatch(one -> one.id().equals(started.id()))) {
            return Optional.empty();
        }
        MigrationReport report = status.last();
        if (report != null && report.migrationId().equals(started.id())) {
            view.report(report);
            return Optional.of(ExitCode.of(report.outcome()));
        }
        Resolution known;
        try (ControlClient client = new ControlClient(socket)) {
            known = client.ask(started.id(), ANSWER_LIMIT);
        }
        long nowNs = System.nanoTime();
        if (known.ended() == null && (unknownSinceNs == 0 || nowNs - unknownSinceNs < UNKNOWN_NS)) {
            unknownSinceNs = unknownSinceNs == 0 ? nowNs : unknownSinceNs;
            return Optional.empty();
        }
        if (known.ended() == null) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "the service is back and does not know the result of migration " + started.id() + ": "
                            + known.text() + " Check if the job runs here. Then: ppmr show " + started.id()
                            + " --config " + configuration);
        }
        view.result(known.text());
        return Optional.of(known.ended() == FinalOutcome.COMMITTED ? ExitCode.OK : ExitCode.ROLLED_BACK);
    }
}
