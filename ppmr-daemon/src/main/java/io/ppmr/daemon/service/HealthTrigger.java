package io.ppmr.daemon.service;

import io.ppmr.daemon.service.HealthJudge.HealthResult;
import io.ppmr.linux.Command;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.OutputBudget;
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
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
    private static final Pattern TIME_LEFT = Pattern.compile("seconds=(\\d{1,6})");
    private static final int OUTPUT_BYTES = 64 << 10;
    private static final OutputBudget OUTPUT = new OutputBudget(0, OUTPUT_BYTES, OUTPUT_BYTES);

    /**
     * An answer of the command.
     *
     * @param timeLeft the time for which the node is expected to run, if the command knows it
     */
    record HealthAnswer(HealthResult result, Optional<Duration> timeLeft) {
        private static final HealthAnswer UNKNOWN = new HealthAnswer(HealthResult.UNKNOWN, Optional.empty());

        /** Reads the output of a command that ended. */
        static HealthAnswer of(boolean isHealthy, String output) {
            Optional<Duration> timeLeft = Optional.empty();
            List<String> lines = output.lines()
                    .map(String::strip)
                    .filter(line -> !line.isEmpty())
                    .toList();
            String last = lines.isEmpty() ? "" : lines.get(lines.size() - 1);
            Matcher found = TIME_LEFT.matcher(last);
            if (found.matches()) {
                // A node without any time left is moved as fast as possible.
                timeLeft = Optional.of(Duration.ofSeconds(Math.max(1, Integer.parseInt(found.group(1)))));
            } else if (last.startsWith("seconds=")) {
                LOG.warn("health command: '{}' is no time and is ignored. Remedy: print seconds=N, N to 999999", last);
            }
            return new HealthAnswer(isHealthy ? HealthResult.WELL : HealthResult.GOING, timeLeft);
        }
    }

    /** The triggers, with their keys. It is immutable. */
    @Section(name = "triggers", doc = "What starts a migration, in addition to SIGUSR2 and `ppmr migrate`.")
    public record Settings(
            @Key(
                    doc = "a command that the source repeats. Exit status 0: this node is healthy. Status 1 to 125:"
                            + " it is failing, and trigger_job is moved. Its last line may be seconds=N: the node is"
                            + " expected to run for N more seconds, as with `ppmr migrate --within`. Words without a"
                            + " shell",
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

    private void take(HealthAnswer given) {
        HealthResult answer = given.result();
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
            fire(given.timeLeft());
        }
    }

    private void fire(Optional<Duration> timeLeft) {
        if (settings.healthDryRun()) {
            LOG.warn("health command: this node is going; dry run, so no migration starts");
            judge.moved();
            return;
        }
        underWay.set(true);
        try {
            String moved = migrations.trigger("the health command", timeLeft, this::onEvent);
            LOG.warn(
                    "health command: this node is going{}; to be moved: {}",
                    timeLeft.map(left -> " in " + left.toSeconds() + " s").orElse(""),
                    moved);
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

    private HealthAnswer ask() throws InterruptedException {
        try (OutputBudget.BudgetShare share = OUTPUT.open()) {
            Command.CommandResult result = Command.of(settings.command())
                    .withoutErrors()
                    .withinBudget(share)
                    .run(settings.healthDeadline());
            if (result.timedOut()) {
                LOG.warn(
                        "health command: no answer within {} (health_deadline): not counted",
                        settings.healthDeadline());
                return HealthAnswer.UNKNOWN;
            }
            if (result.exitCode() > LAST_ANSWER) {
                LOG.warn(
                        "health command: it could not be run or was killed (status {}): not counted",
                        result.exitCode());
                return HealthAnswer.UNKNOWN;
            }
            return HealthAnswer.of(result.succeeded(), result.output());
        } catch (IOException e) {
            LOG.error("health command: it cannot be run: {}; correct triggers.health", e.getMessage());
            return HealthAnswer.UNKNOWN;
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
