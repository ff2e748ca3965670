package io.ppmr.daemon.service;

import io.ppmr.linux.LogContext;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reports the state of the service to the {@link Supervisor}: starting, ready, its current work, and keep-alives. It
 * sends a keep-alive only after the service's mount answered and its agents completed a cycle, so a service that hangs
 * is killed. An idle service wakes only for this, twice in the watchdog's time, and never without a watchdog.
 *
 * <p>It has a daemon thread of its own if there is a supervisor. The service's command closes it.
 */
public final class Watchdog implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Watchdog.class);
    private static final Duration STEP = Duration.ofSeconds(10);
    private static final Duration EXTENSION = Duration.ofSeconds(30);
    /** The time limit on any machine. A longer answer counts as a hang. */
    private static final Duration START_LIMIT = Duration.ofMinutes(6);

    private static final Duration BUSY_STEP = Duration.ofSeconds(1);
    private static final Duration REST = Duration.ofDays(1);
    private static final int SIGNS_A_WATCHDOG = 2;

    /** The vital functions of a service. */
    public interface Vitals {
        /** Returns the reason why it cannot work, if there is one. It answers within the limit or slightly later. */
        Optional<String> complaint(Duration limit) throws InterruptedException;
    }

    private enum Stage {
        STARTING,
        SERVING,
        STOPPING
    }

    private final Supervisor supervisor;
    private final Semaphore wake = new Semaphore(0);
    private final long startNs = System.nanoTime();
    private volatile Stage stage = Stage.STARTING;
    private volatile Vitals vitals = limit -> Optional.empty();
    private volatile Supplier<Optional<String>> activity = Optional::empty;
    private volatile String idle = "idle";
    private String lastStatus = "";

    /** Starts the reports: the service starts. */
    public Watchdog(Supervisor supervisor) {
        this.supervisor = supervisor;
        supervisor.status("mounting and warming up");
        if (supervisor.listens()) {
            LogContext.thread(this::run, "ppmr-life-signs").start();
        }
    }

    /**
     * Reports that the service is ready.
     *
     * @param asked the vital functions to check
     * @param doing the current work, or empty for none
     */
    public void ready(Vitals asked, Supplier<Optional<String>> doing) {
        vitals = asked;
        activity = doing;
        lastStatus = idle;
        supervisor.ready(idle);
        stage = Stage.SERVING;
        wake.release();
    }

    /** Reports that the service began or ended its work. */
    public void changed() {
        wake.release();
    }

    /** Reports the end of a work, shown until the next one. */
    public void ended(String what) {
        idle = "idle; last: " + what;
        wake.release();
    }

    /** Reports that the service stops. */
    public void stopping() {
        stage = Stage.STOPPING;
        supervisor.stopping(activity.get().map(text -> "ending: " + text).orElse("ending"));
        wake.release();
    }

    /** Stops the thread. */
    @Override
    public void close() {
        stage = Stage.STOPPING;
        wake.release();
    }

    private void run() {
        try {
            while (stage == Stage.STARTING && System.nanoTime() - startNs < START_LIMIT.toNanos()) {
                supervisor.extend(EXTENSION);
                await(STEP);
            }
            while (stage != Stage.STOPPING) {
                serve();
            }
        } catch (InterruptedException e) {
            // Only the end of the JVM interrupts this thread.
            Thread.currentThread().interrupt();
        }
    }

    private void serve() throws InterruptedException {
        Duration step = supervisor
                .watchdog()
                .map(all -> all.dividedBy(SIGNS_A_WATCHDOG))
                .orElse(REST);
        long dueNs = System.nanoTime() + step.toNanos();
        if (supervisor.watchdog().isPresent() && stage == Stage.SERVING) {
            Optional<String> complaint = vitals.complaint(step.dividedBy(SIGNS_A_WATCHDOG));
            if (complaint.isEmpty()) {
                supervisor.alive();
            } else {
                LOG.error("this service hangs, so it gives no sign of life: {}", complaint.get());
            }
        }
        long leftNs = dueNs - System.nanoTime();
        while (leftNs > 0 && stage != Stage.STOPPING) {
            boolean busy = reportStatus();
            await(busy ? Duration.ofNanos(Math.min(leftNs, BUSY_STEP.toNanos())) : Duration.ofNanos(leftNs));
            leftNs = dueNs - System.nanoTime();
        }
    }

    private boolean reportStatus() {
        Optional<String> doing = activity.get();
        String status = doing.orElse(idle);
        if (stage == Stage.SERVING && !status.equals(lastStatus)) {
            lastStatus = status;
            supervisor.status(status);
        }
        return doing.isPresent();
    }

    private void await(Duration atMost) throws InterruptedException {
        if (wake.tryAcquire(atMost.toNanos(), TimeUnit.NANOSECONDS)) {
            wake.drainPermits();
        }
    }
}
