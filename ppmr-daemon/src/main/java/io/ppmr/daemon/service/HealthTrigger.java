package io.ppmr.daemon.service;

import io.ppmr.daemon.service.HealthJudge.HealthResult;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.os.Command;
import io.ppmr.os.LogContext;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks the site's health command whether this node is going, and starts the configured migration if so. Has one thread,
 * which sleeps between calls; a service without a health command has none of these. Closed by its owner, which ends a
 * call that runs.
 */
public final class HealthTrigger implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(HealthTrigger.class);
    private static final int LAST_ANSWER = 125;
    private static final long CLOSE_MS = 5000;

    /**
     * The health command, as configured.
     *
     * @param command its words; status 0 says that the node is well, 1 to 125 that it is going
     * @param interval between the end of one call and the next
     * @param deadline how long one call may take
     * @param failures how many in a row say that the node is going before a migration starts
     * @param recoveries how many in a row must say that it is well before another can start
     * @param rest how long after one was started no other is
     * @param dryRun whether it only says what it would do
     */
    public record Settings(
            List<String> command,
            Duration interval,
            Duration deadline,
            int failures,
            int recoveries,
            Duration rest,
            boolean dryRun) {
        public Settings {
            command = List.copyOf(command);
        }
    }

    private final Settings settings;
    private final Migrations migrations;
    private final HealthJudge judge;
    private final CountDownLatch end = new CountDownLatch(1);
    private final AtomicBoolean underWay = new AtomicBoolean();
    private final AtomicBoolean hasMoved = new AtomicBoolean();
    private final Thread thread;
    private HealthResult lastAnswer = HealthResult.UNKNOWN;
    private volatile String state = "not asked yet";

    /** Starts asking. */
    public HealthTrigger(Settings settings, Migrations migrations) {
        this.settings = settings;
        this.migrations = migrations;
        this.judge = new HealthJudge(settings);
        thread = LogContext.thread(this::run, "ppmr-health");
        thread.start();
    }

    /** Describes its state in words. */
    public String state() {
        return state + (settings.dryRun() ? " (dry run: moves nothing)" : "");
    }

    private void run() {
        try {
            do {
                take(ask());
            } while (!end.await(settings.interval().toMillis(), TimeUnit.MILLISECONDS));
        } catch (InterruptedException e) {
            LOG.debug("the health trigger ends", e);
        }
    }

    private void take(HealthResult answer) {
        if (underWay.get()) {
            // What the node says while its job is on its way counts for nothing.
            return;
        }
        if (hasMoved.getAndSet(false)) {
            judge.moved();
        }
        boolean fires = judge.fires(answer, System.nanoTime());
        state = judge.state();
        if (answer != lastAnswer) {
            LOG.info("health command: {}", state);
            lastAnswer = answer;
        }
        if (fires) {
            fire();
        }
    }

    private void fire() {
        if (settings.dryRun()) {
            LOG.warn("health command: this node is going; dry run, so no migration starts");
            judge.moved();
            return;
        }
        underWay.set(true);
        try {
            String moved = migrations.trigger("the health command", this::onEvent);
            LOG.warn("health command: this node is going; to be moved: {}", moved);
        } catch (RequestException e) {
            underWay.set(false);
            LOG.error("health command: this node is going, and no migration starts: {}", e.getMessage());
        }
    }

    /** The migration's thread. */
    private void onEvent(MigrationQueue.Event event) {
        if (event instanceof MigrationQueue.Event.Going) {
            return;
        }
        boolean moved = event instanceof MigrationQueue.Event.Ended ended
                && ended.report().moved();
        if (!moved) {
            LOG.warn("health command: not all was moved; tried again after {} if it still fails", settings.rest());
        }
        hasMoved.set(moved);
        underWay.set(false);
    }

    private HealthResult ask() throws InterruptedException {
        try {
            Command.CommandResult result =
                    Command.of(settings.command()).withoutOutput().run(settings.deadline());
            if (result.timedOut()) {
                LOG.warn("health command: no answer within {} (health_deadline): not counted", settings.deadline());
                return HealthResult.UNKNOWN;
            }
            if (result.exitCode() > LAST_ANSWER) {
                LOG.warn(
                        "health command: it could not be run or was killed (status {}): not counted",
                        result.exitCode());
                return HealthResult.UNKNOWN;
            }
            return result.succeeded() ? HealthResult.WELL : HealthResult.GOING;
        } catch (IOException e) {
            LOG.error("health command: it cannot be run: {}; correct triggers.health", e.getMessage());
            return HealthResult.UNKNOWN;
        }
    }

    @Override
    public void close() {
        end.countDown();
        thread.interrupt();
        try {
            thread.join(CLOSE_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
