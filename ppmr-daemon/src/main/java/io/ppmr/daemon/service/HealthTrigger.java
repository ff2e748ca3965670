package io.ppmr.daemon.service;

import io.ppmr.daemon.service.HealthJudge.HealthResult;
import io.ppmr.linux.Command;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationQueue;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the site's health command periodically, and starts the configured migration if the node is failing. Has one
 * thread, which sleeps between calls. A service without a health command has no trigger. Closed by its owner, which
 * ends a running call.
 */
public final class HealthTrigger implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(HealthTrigger.class);
    private static final int LAST_ANSWER = 125;
    private static final long CLOSE_MS = 5000;

    /** The triggers, with their keys. It is immutable. */
    @Section(name = "triggers", doc = "What starts a migration, in addition to SIGUSR2 and `ppmr migrate`.")
    public record Settings(
            @Key(
                    doc = "a command that the source repeats. Exit status 0: this node is healthy. Status 1 to 125:"
                            + " it is failing, and trigger_job is moved. Words without a shell",
                    example = "[\"/usr/sbin/nhc\"]")
            Optional<List<String>> health,

            @Key(value = "30s", doc = "time between the end of a call and the next call", example = "1m")
            Duration healthInterval,

            @Key(
                    value = "20s",
                    doc = "time limit of a call. A call that takes longer is killed and not counted",
                    example = "1m")
            Duration healthDeadline,

            @Key(
                    value = "3",
                    doc = "number of consecutive calls that must report a failing node before the job is moved",
                    example = "5",
                    least = 1,
                    most = 1000)
            int healthFailures,

            @Key(
                    value = "10",
                    doc = "number of consecutive calls that must report a healthy node, after a move, before the"
                            + " next move",
                    example = "20",
                    least = 1,
                    most = 1000)
            int healthRecoveries,

            @Key(
                    value = "10m",
                    doc = "minimum time between a migration that the health command started and the next one",
                    example = "1h")
            Duration healthCooldown,

            @Key(value = "false", doc = "whether the source only logs that it would move a job", example = "true")
            boolean healthDryRun) {
        /** Returns the words of the health command, or empty if there is none. */
        public List<String> command() {
            return health.orElse(List.of());
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

    /** Starts the calls. */
    public HealthTrigger(Settings settings, Migrations migrations) {
        this.settings = settings;
        this.migrations = migrations;
        this.judge = new HealthJudge(settings);
        thread = LogContext.thread(this::run, "ppmr-health");
        thread.start();
    }

    /** Describes its state in words. */
    public String state() {
        return state + (settings.healthDryRun() ? " (dry run: moves nothing)" : "");
    }

    private void run() {
        try {
            do {
                take(ask());
            } while (!end.await(settings.healthInterval().toMillis(), TimeUnit.MILLISECONDS));
        } catch (InterruptedException e) {
            LOG.debug("the health trigger ends", e);
        }
    }

    private void take(HealthResult answer) {
        if (underWay.get()) {
            // Answers during a migration do not count.
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
        if (settings.healthDryRun()) {
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

    /** Runs on the thread of the migration. */
    private void onEvent(MigrationQueue.Event event) {
        if (event instanceof MigrationQueue.Event.Going) {
            return;
        }
        boolean moved = event instanceof MigrationQueue.Event.Ended ended
                && ended.report().moved();
        if (!moved) {
            LOG.warn(
                    "health command: not all was moved; tried again after {} if it still fails",
                    settings.healthCooldown());
        }
        hasMoved.set(moved);
        underWay.set(false);
    }

    private HealthResult ask() throws InterruptedException {
        try {
            Command.CommandResult result =
                    Command.of(settings.command()).withoutOutput().run(settings.healthDeadline());
            if (result.timedOut()) {
                LOG.warn(
                        "health command: no answer within {} (health_deadline): not counted",
                        settings.healthDeadline());
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
