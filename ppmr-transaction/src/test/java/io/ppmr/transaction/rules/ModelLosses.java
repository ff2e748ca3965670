package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.ParticipantState.Phase;

/** Losses of nodes, and deaths of processes, in a {@link ModelWorld}. */
final class ModelLosses {
    private final ModelMachine machine;
    private ModelWorld from;
    private ModelActions.Sink sink;

    ModelLosses(ModelMachine machine) {
        this.machine = machine;
    }

    private boolean has(int kind) {
        return ModelBudget.has(from.budget, kind);
    }

    private void emit(ModelWorld world, String label, Object detail) {
        machine.check(world);
        sink.next(world, label, detail, false);
    }

    /** Passes every loss that is possible next. */
    void each(ModelWorld world, ModelActions.Sink into) {
        from = world;
        sink = into;
        int any = (3 << (2 * ModelBudget.SOURCE))
                | (3 << (2 * ModelBudget.TARGET))
                | (3 << (2 * ModelBudget.ORIGINAL))
                | (3 << (2 * ModelBudget.COPY))
                | (3 << (2 * ModelBudget.REBOOT))
                | (3 << (2 * ModelBudget.CONTINUED));
        if ((from.budget & any) == 0) {
            return;
        }
        boolean prepared = allPrepared();
        boolean rolledBack = rollBackStands();
        if (!from.isOff(0) && has(ModelBudget.SOURCE)) {
            sourceLost(prepared, rolledBack);
        }
        if (from.isOff(0) && has(ModelBudget.REBOOT) && allHaveNoticed()) {
            ModelWorld back = ModelActions.spend(from.copy(), ModelBudget.REBOOT);
            back.off &= ~1;
            machine.dropMessagesOfSource(back);
            emit(back, "the source's node is on again", "");
        }
        for (int target = 0; target < 2; target++) {
            boolean original = (from.alive >> target & 1) != 0;
            if (original && has(ModelBudget.ORIGINAL)) {
                ModelWorld dead = ModelActions.spend(from.copy(), ModelBudget.ORIGINAL);
                dead.loss(!prepared || rolledBack);
                dead.alive &= ~(1 << target);
                emit(dead, "an original dies", target);
            }
            boolean held = original && (from.held >> target & 1) != 0;
            if (held && has(ModelBudget.CONTINUED) && !commitStands()) {
                continued(target);
            }
            if (from.copy[target] == ModelWorld.HELD && has(ModelBudget.COPY)) {
                ModelWorld dead = ModelActions.spend(from.copy(), ModelBudget.COPY);
                dead.loss(saidHeld(target));
                dead.copy[target] = ModelWorld.DEAD;
                emit(dead, "a copy dies", ModelActions.name(target + 1));
            }
            if (!from.isOff(target + 1) && has(ModelBudget.TARGET)) {
                targetLost(target);
            }
        }
    }

    /**
     * Continues a held original as its user, and may stop it again. After COMMIT the originals are not proved again.
     */
    private void continued(int target) {
        ModelWorld stopped = ModelActions.spend(from.copy(), ModelBudget.CONTINUED);
        stopped.moved |= 1 << target;
        ModelWorld runs = stopped.copy();
        runs.held &= ~(1 << target);
        emit(runs, "an original is continued", target);
        emit(stopped, "an original is continued and stopped again", target);
    }

    private boolean commitStands() {
        return machine.journals.get(from.journal[0]).records().stream()
                .anyMatch(record -> record instanceof TransactionRecord.CommitDecided);
    }

    /** Loses a node between two of its effects. */
    void node(ModelWorld world, int node, ModelActions.Sink into) {
        ModelWorld before = from;
        ModelActions.Sink sinkBefore = sink;
        from = world;
        sink = into;
        if (node == 0) {
            sourceLost(allPrepared(), rollBackStands());
        } else {
            targetLost(node - 1);
        }
        from = before;
        sink = sinkBefore;
    }

    private void sourceLost(boolean prepared, boolean rolledBack) {
        ModelWorld lost = ModelActions.spend(from.copy(), ModelBudget.SOURCE);
        lost.loss(!prepared || rolledBack);
        // Unsynced records are lost with the node.
        crash(lost, 0);
        ModelActions.sourceIsOff(lost);
        emit(lost, "the source's node is lost", "");
        ModelWorld silent = lost.copy();
        machine.dropMessagesOfSource(silent);
        emit(silent, "the source's node is lost with its messages", "");
    }

    private void targetLost(int target) {
        ModelWorld lost = ModelActions.spend(from.copy(), ModelBudget.TARGET);
        lost.loss(saidHeld(target));
        targetIsOff(lost, target);
        emit(lost, "a target's node is lost", ModelActions.name(target + 1));
    }

    private boolean rollBackStands() {
        return machine.journals.get(from.journal[0]).records().stream()
                .reduce(false, ModelLosses::rollBackStands, (one, other) -> other);
    }

    /** Returns true if all have noticed. A node needs more time to start than a peer to notice a silent link. */
    private boolean allHaveNoticed() {
        for (int target = 0; target < 2; target++) {
            if (from.isUp(target + 1)) {
                ParticipantState state = machine.participant(from, target);
                boolean listens = state.phase() == Phase.PREPARING || state.phase() == Phase.PREPARED;
                if (listens && !state.sourceLost()) {
                    return false;
                }
            }
        }
        return true;
    }

    private void crash(ModelWorld world, int node) {
        if (world.state[node] >= 0) {
            machine.crash(world, node);
        }
    }

    void targetIsOff(ModelWorld world, int target) {
        crash(world, target + 1);
        world.off |= 2 << target;
        world.copy[target] = ModelWorld.NONE;
        world.window &= ~(1 << target);
    }

    private boolean allPrepared() {
        CoordinatorState state = CoordinatorRules.replay(
                ModelMachine.ID, machine.journals.get(from.journal[0]).records());
        for (int node = 1; node <= 2; node++) {
            boolean prepared = machine.journals.get(from.journal[node]).records().stream()
                    .anyMatch(record ->
                            record instanceof TransactionRecord.PreparedHere && record.attempt() == state.attempt());
            if (!prepared) {
                return false;
            }
        }
        return true;
    }

    private static boolean rollBackStands(boolean before, TransactionRecord record) {
        if (record instanceof TransactionRecord.Begun || record instanceof TransactionRecord.CommitDecided) {
            return false;
        }
        return before || record instanceof TransactionRecord.RollBackDecided;
    }

    /** Returns true if the target has reported its current copies as held. A promise counts, too. */
    private boolean saidHeld(int target) {
        int attempt = machine.journals.get(from.journal[target + 1]).records().stream()
                .filter(record -> record instanceof TransactionRecord.PreparedHere)
                .mapToInt(TransactionRecord::attempt)
                .max()
                .orElse(0);
        if (attempt == 0) {
            return false;
        }
        boolean fences = machine.journals.get(from.journal[target + 1]).records().stream()
                .anyMatch(record -> record instanceof TransactionRecord.Fencing && record.attempt() == attempt);
        for (int number = 0; number < machine.messages.size() && !fences; number++) {
            ModelMachine.SentMessage sentMessage = machine.messages.get(number);
            if (from.wasSent(number) && sentMessage.from() == target + 1 && sentMessage.attempt() == attempt) {
                fences = sentMessage.message() instanceof ControlMessage.StillHeld
                        || (sentMessage.message() instanceof ControlMessage.ParticipantStatus standing
                                && standing.state() == VoterState.PROMISED);
            }
        }
        return fences;
    }
}
