package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationQueue.Event;
import io.ppmr.migration.source.MigrationQueue.Request;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests orders, and the current migration. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MigrationQueueTest {
    private static final Duration ANSWER = Duration.ofSeconds(1L * Integer.getInteger("ppmr.patience", 1));
    private static final Duration LIMIT = Duration.ofSeconds(20L * Integer.getInteger("ppmr.patience", 1));

    private final List<String> moved = Collections.synchronizedList(new ArrayList<>());
    private final CountDownLatch go = new CountDownLatch(1);
    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final BlockingQueue<Cancellation> cancellations = new LinkedBlockingQueue<>();
    private final MigrationQueue queue = new MigrationQueue((MigrationQueue.MigrationRunner) this::move);

    private MigrationReport move(
            String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher) {
        moved.add(order.job().name());
        cancellations.add(cancellation);
        return report(id, cancellation.reason().isPresent() ? Outcome.ROLLED_BACK : Outcome.COMMITTED);
    }

    private static MigrationReport report(String id, Outcome outcome) {
        return new MigrationReport(
                id,
                "blcr",
                "",
                outcome,
                "",
                MigrationReport.MovedImages.NONE,
                MigrationReport.MigrationTimes.NONE,
                MigrationReport.ServiceMemory.NONE,
                List.of(),
                null,
                false);
    }

    private static Optional<MigrationOrder> order(String job) {
        return Optional.of(new MigrationOrder(new Job(job, new JobUser(1, 1), null, List.of()), List.of(), "a test"));
    }

    private static Request request(String job, boolean isGivenWayTo, Callable<Optional<MigrationOrder>> order) {
        return new Request(job, "a test", isGivenWayTo, order, new MigrationQueue.Customer() {});
    }

    /** Returns a request whose job is scanned until the test ends that. */
    private Request slow(String job, boolean isGivenWayTo) {
        return request(job, isGivenWayTo, () -> {
            go.await();
            return order(job);
        });
    }

    /** Returns a migration that reports "in doubt" at once, and occupies the node until the test ends it. */
    private OwnedMigration inDoubt(String id, ReportListener reported) {
        MigrationReport inDoubt = report(id, Outcome.IN_DOUBT);
        return new BriefMigration(
                () -> {
                    reported.report(inDoubt, false);
                    go.await();
                    return inDoubt;
                },
                reported);
    }

    private static void awaitFree(MigrationQueue busy) {
        long deadlineNs = System.nanoTime() + LIMIT.toNanos();
        while (busy.owner().isPresent() && System.nanoTime() - deadlineNs < 0) {
            Thread.onSpinWait();
        }
        assertEquals(Optional.empty(), busy.owner());
    }

    private Event next() throws InterruptedException {
        return events.poll(LIMIT.toSeconds(), TimeUnit.SECONDS);
    }

    @AfterEach
    void end() throws Exception {
        go.countDown();
        assertTrue(queue.close(LIMIT));
    }

    @Test
    void shouldAnswerWithinASecondWhileALookAtAJobHangs() throws Exception {
        MigrationQueue.Started started = queue.start(slow("a", true), events::add);
        assertTimeout(
                ANSWER, () -> assertEquals(Optional.of(started), queue.state().running()));
        String refusal = assertTimeout(
                        ANSWER,
                        () -> assertThrows(RequestException.class, () -> queue.start(slow("b", false), events::add)))
                .getMessage();
        assertTrue(refusal.contains("job a is being migrated"), refusal);
        assertTimeout(ANSWER, () -> queue.startAll(List.of(request("c", false, () -> order("c"))), "x", events::add));
        assertTimeout(ANSWER, () -> assertEquals(started.id(), queue.cancel(started.id(), "somebody")));
        assertTimeout(ANSWER, () -> assertEquals(Optional.empty(), queue.migration()));
        go.countDown();
        assertEquals(
                Outcome.ROLLED_BACK,
                assertInstanceOf(Event.Ended.class, next()).report().outcome());
        assertEquals(
                Outcome.COMMITTED,
                assertInstanceOf(Event.Ended.class, next()).report().outcome());
        assertEquals(List.of("a", "c"), moved);
    }

    @Test
    void shouldGoOnWithTheOthersOfATriggerWhenOneCannotBeginOrIsNotThereAnyMore() throws Exception {
        queue.startAll(
                List.of(
                        request("gone", false, Optional::empty),
                        request("broken", false, () -> {
                            throw new IOException("no.pid does not exist");
                        }),
                        request("whole", false, () -> order("whole"))),
                "a test",
                events::add);
        assertEquals(
                "no.pid does not exist",
                assertInstanceOf(Event.Failed.class, next()).reason());
        assertEquals(List.of("whole"), moved);
        assertEquals(Optional.empty(), queue.owner());
    }

    @Test
    void shouldKeepTheNodeWhenAMigrationIsInDoubtUntilNothingOfItIsLeft() throws Exception {
        MigrationQueue doubtful = new MigrationQueue((id, order, cancellation, watcher, reported) -> {
            return inDoubt(id, reported);
        });
        MigrationQueue.Started started = doubtful.start(request("a", false, () -> order("a")), events::add);
        assertEquals(
                Outcome.IN_DOUBT,
                assertInstanceOf(Event.Ended.class, next()).report().outcome());
        assertEquals(Optional.empty(), doubtful.state().running());
        assertEquals(Optional.of(started.id()), doubtful.owner().map(MigrationQueue.Owner::id));
        String refusal = assertThrows(
                        RequestException.class,
                        () -> doubtful.start(request("b", false, () -> order("b")), events::add))
                .getMessage();
        assertTrue(refusal.contains(started.id() + ", which is older, has not ended yet"), refusal);
        go.countDown();
        awaitFree(doubtful);
        assertTrue(events.isEmpty(), "there is one event for it");
    }

    @Test
    void shouldFailByNameWhenAMigrationBreaksOff() throws Exception {
        queue.start(
                request("a", false, () -> {
                    throw new IllegalStateException("a defect");
                }),
                events::add);
        String reason = assertInstanceOf(Event.Failed.class, next()).reason();
        assertTrue(reason.contains("failed") && reason.contains("a defect"), reason);
        assertEquals(Optional.empty(), queue.owner());
    }

    @Test
    void shouldTakeNoMoreWhenItIsClosed() throws Exception {
        assertTrue(queue.close(LIMIT));
        assertThrows(RequestException.class, () -> queue.start(slow("a", false), events::add));
    }

    @Test
    void shouldLeaveTheWaitingJobsWhenSomebodyCancelsThemWhileOneIsInDoubt() throws Exception {
        MigrationQueue doubtful = new MigrationQueue((id, order, cancellation, watcher, reported) -> {
            moved.add(order.job().name());
            return inDoubt(id, reported);
        });
        BlockingQueue<Event> rounds = new LinkedBlockingQueue<>();
        doubtful.watch(events::add);
        doubtful.startAll(
                List.of(request("a", false, () -> order("a")), request("b", false, () -> order("b"))),
                "a test",
                rounds::add);
        next();
        assertEquals(List.of("b"), doubtful.state().waiting());
        assertEquals(List.of("b"), doubtful.cancelWaiting("somebody"));
        assertEquals(
                Outcome.IN_DOUBT,
                assertInstanceOf(Event.Ended.class, rounds.poll(LIMIT.toSeconds(), TimeUnit.SECONDS))
                        .report()
                        .outcome());
        assertThrows(RequestException.class, () -> doubtful.cancelWaiting("somebody"));
        go.countDown();
        awaitFree(doubtful);
        assertEquals(List.of("a"), moved);
    }

    @Test
    void shouldEndTheRoundWithTheOneThatMovesWhenTheOthersAreCancelled() throws Exception {
        queue.startAll(List.of(slow("a", false), request("b", false, () -> order("b"))), "a test", events::add);
        assertEquals(List.of("b"), queue.cancelWaiting("somebody"));
        assertTrue(events.isEmpty(), "job a is being moved");
        go.countDown();
        assertInstanceOf(Event.Ended.class, next());
        assertEquals(List.of("a"), moved);
    }

    @Test
    void shouldTellWhoCancelsWhileALookHangsForEver() throws Exception {
        MigrationQueue.Started started = queue.start(slow("a", false), events::add);
        queue.cancel(started.id(), "somebody");
        String reason = assertInstanceOf(Event.Failed.class, next()).reason();
        assertEquals("cancelled by somebody; the job is unchanged", reason);
        assertEquals(Optional.of(started.id()), queue.owner().map(MigrationQueue.Owner::id), "the look hangs");
        go.countDown();
        awaitFree(queue);
        assertTrue(events.isEmpty(), "there is one event for it");
    }

    @Test
    void shouldNotWaitForAMigrationOfAnEarlierRunWhenItHasReported() throws Exception {
        queue.continueRecorded("m-1", reported -> inDoubt("m-1", reported), new Cancellation());
        assertTrue(queue.awaitReport(LIMIT));
        assertTrue(queue.owner().isPresent(), "it still has the node");
        go.countDown();
        awaitFree(queue);
    }
}
