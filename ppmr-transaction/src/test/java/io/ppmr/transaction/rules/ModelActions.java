package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.rules.ParticipantState.Phase;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** All events that can happen next in a {@link ModelWorld}. */
final class ModelActions {
    /** Any valid time of a promise. */
    private static final long PROMISE_NS = TimeUnit.SECONDS.toNanos(1);

    /** Accepts the next states. */
    interface Sink {
        /**
         * Accepts a state that may follow.
         *
         * @param good the event is no failure. It happens some time if no failure follows.
         */
        void next(ModelWorld world, String label, Object detail, boolean good);
    }

    private final ModelMachine machine;
    private final ModelLosses losses;
    private final boolean fenceWorks;
    private ModelWorld from;
    private Sink sink;

    ModelActions(ModelMachine machine, boolean fenceWorks) {
        this.machine = machine;
        this.losses = new ModelLosses(machine);
        this.fenceWorks = fenceWorks;
    }

    void each(ModelWorld world, Sink into) {
        from = world;
        sink = into;
        deliveries();
        coordinator();
        for (int target = 0; target < 2; target++) {
            participant(target);
            fence(target);
        }
        for (int node = 0; node <= 2; node++) {
            service(node);
        }
        if (from.isUp(0)) {
            shots();
        }
        losses.each(from, sink);
    }

    private boolean has(int kind) {
        return ModelBudget.has(from.budget, kind);
    }

    static ModelWorld spend(ModelWorld world, int kind) {
        world.budget = ModelBudget.take(world.budget, kind);
        return world;
    }

    private void event(String label, int node, Object event, boolean good) {
        event(from, label, node, event, good);
    }

    private void event(ModelWorld base, String label, int node, Object event, boolean good) {
        numbered(base, label, node, machine.event(event), event, good);
    }

    /** Runs an event to its end, and also with a crash after each effect except the last. */
    private void numbered(ModelWorld base, String label, int node, int event, Object detail, boolean good) {
        ModelWorld full = base.copy();
        if (!machine.run(full, node, event, Integer.MAX_VALUE)) {
            if (base != from) {
                sink.next(full, label, detail, good);
            }
            return;
        }
        int effects = machine.effects();
        sink.next(full, label, detail, good);
        if (has(ModelBudget.CRASHES)) {
            for (int after = 1; after < effects; after++) {
                ModelWorld cut = base.copy();
                machine.run(cut, node, event, after);
                sink.next(spend(cut, ModelBudget.CRASHES), label + ", crash after effect " + after, detail, false);
            }
        }
        if (has(node == 0 ? ModelBudget.SOURCE : ModelBudget.TARGET)) {
            for (int after = 1; after < effects; after++) {
                ModelWorld cut = base.copy();
                machine.run(cut, node, event, after);
                String when = label + ", effect " + after + ", then ";
                losses.node(cut, node, (next, what, unused, ok) -> sink.next(next, when + what, detail, false));
            }
        }
    }

    private void deliveries() {
        for (int number = 0; number < machine.messages.size(); number++) {
            if (!from.wasSent(number)) {
                continue;
            }
            ModelMachine.SentMessage sentMessage = machine.messages.get(number);
            if (!from.isUp(sentMessage.to())) {
                continue;
            }
            boolean promise = sentMessage.message() instanceof ControlMessage.StatusQuery ask && ask.round() != 0;
            if (!promise || from.copy[sentMessage.to() - 1] == ModelWorld.HELD) {
                // The query is repeated only in the window.
                boolean good = !promise || (from.window >> (sentMessage.from() - 1) & 1) != 0;
                numbered(from, "hear", sentMessage.to(), machine.messageEvent(number), sentMessage, good);
            }
        }
    }

    static String name(int node) {
        return ModelMachine.NAMES.get(node - 1);
    }

    /**
     * Returns true for a recovery that must be refused. All members of an empty list are sealed, so it would kill the
     * originals.
     */
    private static boolean beginsWithoutParticipant(CoordinatorState state) {
        try {
            CoordinatorRules.apply(state, new CoordinatorEvent.Start(List.of(), List.of()));
            return true;
        } catch (IllegalArgumentException refused) {
            return false;
        }
    }

    private void coordinator() {
        if (!from.isUp(0)) {
            return;
        }
        CoordinatorState state = machine.coordinator(from);
        switch (state.phase()) {
            case NEW -> {
                if (beginsWithoutParticipant(state)) {
                    machine.violation = "a migration begins without a participant";
                }
                event("start", 0, new CoordinatorEvent.Start(ModelMachine.NAMES, List.of()), true);
            }
            case PREPARING, CONFIRMING -> {
                images(state);
                forged(state);
                if (has(ModelBudget.FAILURE)) {
                    ModelWorld spent = spend(from.copy(), ModelBudget.FAILURE);
                    event(spent, "a target fails", 0, machine.failed(from, false, true), false);
                    event(spent, "called off", 0, machine.failed(from, false, false), false);
                }
                if ((from.off & 6) != 0 || from.alive != 3) {
                    event("a failure is noticed", 0, machine.failed(from, false, false), true);
                }
                if (state.phase() == CoordinatorState.CoordinatorPhase.CONFIRMING && has(ModelBudget.RESOLVE)) {
                    ModelWorld spent = spend(from.copy(), ModelBudget.RESOLVE);
                    spent.excused = true;
                    event(
                            spent,
                            "resolve --rollback",
                            0,
                            new CoordinatorEvent.CoordinatorDecision(FinalOutcome.ROLLED_BACK),
                            false);
                }
            }
            case ROLLING_BACK -> {
                forged(state);
                if (has(ModelBudget.FAILURE)) {
                    event(
                            spend(from.copy(), ModelBudget.FAILURE),
                            "no more attempts",
                            0,
                            new CoordinatorEvent.NoMoreAttempts(""),
                            false);
                }
            }
            case BROKEN -> {
                forged(state);
                if (has(ModelBudget.RESOLVE)) {
                    ModelWorld spent = spend(from.copy(), ModelBudget.RESOLVE);
                    event(
                            spent,
                            "resolve --commit",
                            0,
                            new CoordinatorEvent.CoordinatorDecision(FinalOutcome.COMMITTED),
                            false);
                    spent.excused = true;
                    event(
                            spent,
                            "resolve --rollback",
                            0,
                            new CoordinatorEvent.CoordinatorDecision(FinalOutcome.ROLLED_BACK),
                            false);
                }
            }
            default -> {
                // No operator is needed in the other phases.
            }
        }
    }

    /** Sends messages of a faulty participant, or of a sender that learnt the migration's secret. */
    private void forged(CoordinatorState state) {
        boolean early = !state.all(CoordinatorState.Member::sealed);
        for (int target = 0; target < 2 && early && has(ModelBudget.FORGED); target++) {
            ModelWorld spent = spend(from.copy(), ModelBudget.FORGED);
            ControlMessage word = new ControlMessage.Committed(ModelMachine.ID);
            event(
                    spent,
                    "a forged Committed",
                    0,
                    new CoordinatorEvent.ParticipantMessage(name(target + 1), state.attempt(), word),
                    false);
        }
    }

    private void images(CoordinatorState state) {
        for (int target = 0; target < 2 && state.phase() == CoordinatorState.CoordinatorPhase.PREPARING; target++) {
            if ((from.alive >> target & 1) != 0
                    && !state.member(name(target + 1)).sealed()) {
                ModelWorld held = from.copy();
                held.held |= 1 << target;
                held.moved &= ~(1 << target);
                event(held, "image complete", 0, new CoordinatorEvent.ImageComplete(name(target + 1), List.of()), true);
            }
        }
    }

    private void participant(int target) {
        int node = target + 1;
        if (!from.isUp(node)) {
            return;
        }
        ParticipantState state = machine.participant(from, target);
        boolean sourceOff = from.isOff(0);
        if (state.phase() == Phase.PREPARING) {
            boolean whole = (from.whole >> (2 * (state.attempt() - 1) + target) & 1) != 0;
            if (whole && from.copy[target] == ModelWorld.RESTORING) {
                ModelWorld restored = from.copy();
                restored.copy[target] = ModelWorld.HELD;
                event(restored, "copies held", node, new ParticipantEvent.CopiesHeld("s", Begins.copies("t"), 0), true);
            }
            if (has(ModelBudget.FAILURE)) {
                ModelWorld spent = spend(from.copy(), ModelBudget.FAILURE);
                event(spent, "restart fails", node, new ParticipantEvent.LocalFailure(""), false);
            }
        }
        boolean listens = state.phase() == Phase.PREPARING || state.phase() == Phase.PREPARED;
        if (listens && !state.sourceLost()) {
            if (sourceOff) {
                event("source lost", node, new ParticipantEvent.SourceLost(0), true);
            } else if (from.state[0] < 0) {
                event("source lost", node, new ParticipantEvent.SourceLost(0), false);
            } else if (has(ModelBudget.LINK)) {
                ModelWorld spent = spend(from.copy(), ModelBudget.LINK);
                event(spent, "link to the source lost", node, new ParticipantEvent.SourceLost(0), false);
            }
        }
        if (state.sourceLost() && from.isUp(0)) {
            ModelWorld back = from.copy();
            back.window &= (from.fencing >> target & 1) != 0 ? back.window : ~(1 << target);
            event(back, "source back", node, new ParticipantEvent.SourceBack(), true);
        }
        // A promise ends after its time and with a new link, so the source is alive after the window.
        boolean othersWindow = (from.window | from.fencing) != 0;
        if (state.promised() && !othersWindow && from.isUp(0)) {
            event("promise over", node, new ParticipantEvent.PromiseOver(), true);
        }
        boolean open = state.phase() == Phase.PREPARED || state.phase() == Phase.TAKEN_OVER;
        if (open && sourceOff && has(ModelBudget.RESOLVE) && state.isFirst()) {
            ModelWorld spent = spend(from.copy(), ModelBudget.RESOLVE);
            spent.excused = true;
            event(
                    spent,
                    "resolve --commit",
                    node,
                    new ParticipantEvent.ParticipantDecision(FinalOutcome.COMMITTED, false),
                    false);
            event(
                    spent,
                    "resolve --rollback",
                    node,
                    new ParticipantEvent.ParticipantDecision(FinalOutcome.ROLLED_BACK, false),
                    false);
        }
    }

    private void fence(int target) {
        int node = target + 1;
        int bit = 1 << target;
        ParticipantState state = from.isUp(node) ? machine.participant(from, target) : null;
        boolean waits = state != null && state.phase() == Phase.PREPARED && state.isFirst() && state.sourceLost();
        int used = from.windowsUsed >> (2 * target) & 3;
        boolean commandRuns = (from.fencing & bit) != 0;
        if (waits && (from.window & bit) == 0 && !commandRuns && has(ModelBudget.WINDOW) && used < 3) {
            ModelWorld open = spend(from.copy(), ModelBudget.WINDOW);
            open.window |= bit;
            open.windowsUsed += 1 << (2 * target);
            emit(open, "fence window opens", name(node), from.isOff(0) && fenceWorks);
        }
        if (waits && (from.window & bit) != 0 && state.round() == 0 && !state.fencing() && !commandRuns) {
            if (from.copy[target] == ModelWorld.HELD) {
                event("fence due", node, new ParticipantEvent.SourceFenceDue(used, PROMISE_NS), true);
            }
        }
        if ((from.window & bit) != 0 && !commandRuns) {
            ModelWorld shut = from.copy();
            shut.window &= ~bit;
            if (state != null) {
                event(shut, "fence window over", node, new ParticipantEvent.FenceWindowOver(), !waits);
            } else {
                emit(shut, "fence window over", name(node), false);
            }
        }
        if (commandRuns) {
            fenceEnds(target, state);
        } else if (state != null && state.fencing() && from.isUp(0)) {
            // The link is new, so the source is alive after the command.
            event("fence is over", node, new ParticipantEvent.FenceEnded(false), true);
        }
    }

    private void fenceEnds(int target, ParticipantState state) {
        int bit = 1 << target;
        ModelWorld ended = from.copy();
        ended.fencing &= ~bit;
        ended.window &= ~bit;
        boolean tells = state != null && state.fencing();
        boolean sourceOff = from.isOff(0);
        ModelWorld shot = ended.copy();
        sourceIsOff(shot);
        if (tells) {
            event(shot, "fenced", target + 1, new ParticipantEvent.FenceEnded(true), sourceOff && fenceWorks);
            emit(ended, "fence fails", name(target + 1), !sourceOff || !fenceWorks);
        } else {
            emit(shot, "fenced, no result", name(target + 1), false);
            emit(ended, "fence ends, no result", name(target + 1), true);
        }
    }

    private void emit(ModelWorld world, String label, Object detail, boolean good) {
        machine.check(world);
        sink.next(world, label, detail, good);
    }

    static void sourceIsOff(ModelWorld world) {
        world.off |= 1;
        world.state[0] = -1;
        world.alive = 0;
    }

    private void service(int node) {
        if (from.isOff(node)) {
            return;
        }
        if (from.state[node] < 0) {
            ModelWorld up = from.copy();
            if (node > 0 && isBeingRestored(up, node)) {
                up.copy[node - 1] = ModelWorld.NONE;
            }
            up.state[node] = 0;
            numbered(up, "restart", node, machine.recoveryEvent(from, node), node, true);
        } else if (has(ModelBudget.CRASHES)) {
            ModelWorld down = spend(from.copy(), ModelBudget.CRASHES);
            machine.crash(down, node);
            emit(down, "crash", node, false);
        }
    }

    /** Returns true if the node has no record, and its restore was interrupted. */
    private boolean isBeingRestored(ModelWorld world, int node) {
        Transition<?> recovery = machine.recovery(world, node);
        Phase phase = ((ParticipantState) recovery.state()).phase();
        return phase == Phase.NOTHING || phase == Phase.ROLLED_BACK;
    }

    /** Lets the source fence a target that it waits for, but never while a target may be about to fence the source. */
    private void shots() {
        if ((from.window | from.fencing) != 0) {
            return;
        }
        for (int target = 0; target < 2; target++) {
            CoordinatorEvent due = new CoordinatorEvent.FenceDue(name(target + 1));
            if (machine.coordinator(from).phase() != CoordinatorState.CoordinatorPhase.ROLLING_BACK) {
                continue;
            }
            boolean wanted = !CoordinatorRules.apply(machine.coordinator(from), due)
                    .effects()
                    .isEmpty();
            boolean reached = !from.isOff(target + 1);
            if (wanted && (!reached || has(ModelBudget.LINK))) {
                ModelWorld shot = from.copy();
                if (reached) {
                    spend(shot, ModelBudget.LINK);
                    losses.targetIsOff(shot, target);
                }
                event(shot, "target fenced", 0, new CoordinatorEvent.Off(name(target + 1)), false);
            }
        }
    }
}
