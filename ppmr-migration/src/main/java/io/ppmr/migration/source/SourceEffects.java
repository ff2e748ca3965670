package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Fence;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.transaction.Coordinator;
import io.ppmr.transaction.EffectExecutor;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Carries out the effects of a migration at its source. Blocking work is a piece of the worker's, whose result is used
 * when the effect is handed over again. Other work is done at once. Owned by the migration's thread.
 */
final class SourceEffects implements EffectExecutor {
    private static final Logger LOG = LoggerFactory.getLogger(SourceEffects.class);
    /** Maximum age of a result. An older result is obtained again, because the service was frozen. */
    private static final long FRESH_NS = TimeUnit.SECONDS.toNanos(2);

    /**
     * Receives the start and results of effects, on the migration's thread except for {@link #failed} and
     * {@link #fenceEnded}.
     */
    interface EffectEvents {
        /** An attempt begins. Earlier attempts are over. */
        void attemptBegins(int attempt);

        /** The decision to roll back is in the journal. */
        void rollbackDecided();

        /** An attempt failed. Any thread. */
        void failed(int attempt, Attempt.Failure failure);

        /** The fence command ended. {@code off} means that the participant's node is proved off. Any thread. */
        void fenceEnded(String participant, boolean off);
    }

    /** A piece of the worker's, and its end. */
    private static final class EffectPiece {
        private final Effect effect;
        private final Future<Supplier<Execution>> result;
        private volatile long endedNs;

        private EffectPiece(
                Effect effect, SerialWorker worker, LongSupplier clock, Callable<Supplier<Execution>> work) {
            this.effect = effect;
            this.result = worker.start(() -> {
                try {
                    return work.call();
                } finally {
                    endedNs = clock.getAsLong();
                }
            });
        }
    }

    private final SourceContext service;
    private final SourceActions actions;
    private final Attempts attempts;
    private final ParticipantLinks links;
    private final MigrationOutlook outlook;
    private final SerialWorker worker;
    private final EffectEvents events;
    private final Coordinator coordinator;
    private Optional<EffectPiece> piece = Optional.empty();

    SourceEffects(
            String migrationId,
            SourceContext service,
            SourceActions actions,
            Attempts attempts,
            ParticipantLinks links,
            MigrationOutlook outlook,
            SerialWorker worker,
            EffectEvents events) {
        this.service = service;
        this.actions = actions;
        this.attempts = attempts;
        this.links = links;
        this.outlook = outlook;
        this.worker = worker;
        this.events = events;
        SourceSettings settings = service.settings();
        TransactionTimes times = TransactionTimes.standard(
                settings.node().silenceLimit().toNanos(),
                settings.limits().pauseBudget().toNanos());
        this.coordinator = new Coordinator(migrationId, times, this);
    }

    /** Returns the coordinator whose effects these are. */
    Coordinator coordinator() {
        return coordinator;
    }

    /** Returns true if an effect that was under way ended, so that the coordinator must be woken. */
    boolean hasEnded() {
        return piece.filter(current -> current.result.isDone()).isPresent();
    }

    @Override
    public Execution carryOut(Effect effect) throws IOException {
        if (effect instanceof Effect.Send send) {
            send(send);
            return Execution.DONE;
        }
        if (effect instanceof Effect.Report text) {
            outlook.report(text.text());
            return Execution.DONE;
        }
        if (effect instanceof Effect.FenceParticipant fence
                && service.settings().fence().isEmpty()) {
            coordinator.notFenced(fence.participant());
            return Execution.DONE;
        }
        if (piece.isEmpty() || piece.get().effect != effect) {
            if (effect instanceof Effect.StartAttempt start) {
                events.attemptBegins(start.attempt());
            }
            piece = Optional.of(new EffectPiece(effect, worker, service.clock(), pieceFor(effect)));
        }
        return result(piece.get());
    }

    private void send(Effect.Send send) {
        try {
            links.send(send.participant(), send.attempt(), send.message());
        } catch (RuntimeException e) {
            outlook.reportDefect("a message could not be sent", e);
            events.failed(
                    send.attempt(),
                    new Attempt.Failure("a defect of this service: a message could not be sent: " + e, ""));
        }
    }

    private Execution result(EffectPiece current) throws IOException {
        if (!current.result.isDone()) {
            return Execution.RUNNING;
        }
        piece = Optional.empty();
        if (isInspection(current.effect) && service.clock().getAsLong() - current.endedNs > FRESH_NS) {
            return Execution.FAILED;
        }
        try {
            return current.result.get().get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof IOException cause) {
                throw cause;
            }
            throw new IllegalStateException(e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Execution.FAILED;
        }
    }

    private static boolean isInspection(Effect effect) {
        return effect instanceof Effect.EvaluateFailure
                || effect instanceof Effect.ProveOriginals
                || effect instanceof Effect.Recover;
    }

    /** Returns the worker's piece for an effect. The piece returns the part for the migration's thread. */
    private Callable<Supplier<Execution>> pieceFor(Effect effect) {
        if (effect instanceof Effect.Persist persist) {
            return persist(persist.record());
        }
        if (effect instanceof Effect.StartAttempt start) {
            return startAttempt(start, links.removeAll());
        }
        if (effect instanceof Effect.StopAttempt stop) {
            return ifDone(() -> attempts.giveUp(stop.attempt(), stop.reason()));
        }
        if (effect instanceof Effect.Seal seal) {
            int attempt = coordinator.state().attempt();
            return done(() ->
                    runOrFail(attempt, "the images could not be completed", () -> attempts.seal(seal.participant())));
        }
        if (effect instanceof Effect.EndOriginals) {
            return ifDone(actions::endOriginals);
        }
        if (effect instanceof Effect.ContinueOriginals) {
            return ifDone(actions::continueOriginals);
        }
        if (effect instanceof Effect.Resume) {
            return done(actions::resume);
        }
        if (effect instanceof Effect.Reconnect) {
            return done(actions::reconnect);
        }
        if (effect instanceof Effect.FenceParticipant fence) {
            Fence command = service.settings().fence().orElseThrow();
            return done(() ->
                    actions.fence(command, fence.participant(), off -> events.fenceEnded(fence.participant(), off)));
        }
        if (effect instanceof Effect.Finished finished) {
            return () -> {
                MigrationReport report = actions.finish(finished.outcome(), finished.reason());
                return () -> {
                    outlook.setFinalReport(report);
                    return Execution.DONE;
                };
            };
        }
        return inspect(effect);
    }

    private Callable<Supplier<Execution>> persist(TransactionRecord record) {
        return () -> {
            service.journal().persist(record);
            return then(() -> {
                if (record instanceof TransactionRecord.RollBackDecided) {
                    events.rollbackDecided();
                }
            });
        };
    }

    private Callable<Supplier<Execution>> inspect(Effect effect) {
        if (effect instanceof Effect.EvaluateFailure judge) {
            boolean again = coordinator.mayTryAgain(judge);
            return () -> {
                OriginalsState proved = actions.originals();
                List<String> next = again ? next(judge.participant()) : List.of();
                return then(() -> coordinator.failureEvaluated(judge, proved, next));
            };
        }
        if (effect instanceof Effect.ProveOriginals) {
            return () -> {
                OriginalsState proved = actions.originals();
                String whyNot = proved == OriginalsState.HELD ? "" : actions.whyNotHeld();
                return then(() -> coordinator.proved(proved, whyNot));
            };
        }
        if (effect instanceof Effect.Recover recover) {
            return () -> {
                OriginalsState proved = actions.originals();
                return then(() -> coordinator.originalsProvedForRecovery(recover, proved));
            };
        }
        throw new IllegalStateException("not a coordinator's: " + effect);
    }

    private List<String> next(String participant) {
        try {
            return attempts.next(participant);
        } catch (RuntimeException e) {
            LOG.error("a defect of this service; please report it: another attempt could not be planned", e);
            return List.of();
        }
    }

    private Callable<Supplier<Execution>> startAttempt(Effect.StartAttempt start, List<ReconnectingLink> old) {
        return () -> {
            SourceActions.close(old);
            runOrFail(
                    start.attempt(),
                    "the attempt could not be begun",
                    () -> attempts.begin(start.attempt(), start.participants()));
            return then(() -> links.connected(attempts.sessions()));
        };
    }

    /** Work that may fail for reasons outside of the service. */
    private interface FailingWork {
        void run() throws IOException, CheckpointException, InterruptedException;
    }

    /** Runs the work. If it fails, the attempt fails. */
    private void runOrFail(int attempt, String what, FailingWork work) {
        String failure;
        try {
            work.run();
            return;
        } catch (IOException | CheckpointException e) {
            failure = String.valueOf(e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            failure = "the source's service ends";
        } catch (RuntimeException | Error e) {
            // An Error would repeat the effect, but a checkpoint must not be begun twice.
            LOG.error("a defect of this service; please report it: {}", what, e);
            failure = "a defect of this service: " + what + ": " + e;
        }
        events.failed(attempt, new Attempt.Failure(failure, ""));
    }

    private static Callable<Supplier<Execution>> done(FailingWork work) {
        return () -> {
            work.run();
            return () -> Execution.DONE;
        };
    }

    private static Callable<Supplier<Execution>> ifDone(BooleanSupplier work) {
        return () -> {
            Execution execution = work.getAsBoolean() ? Execution.DONE : Execution.FAILED;
            return () -> execution;
        };
    }

    private static Supplier<Execution> then(Runnable follows) {
        return () -> {
            follows.run();
            return Execution.DONE;
        };
    }
}
