package io.ppmr.transaction.rules;

import java.util.List;

/** States of the first attempt, for tests of other packages. */
public final class States {
    private States() {}

    /** Returns a coordinator of which no participant may have voted. */
    public static CoordinatorState unsealed(
            String migrationId, List<String> participants, CoordinatorState.CoordinatorPhase phase) {
        return CoordinatorState.fresh(migrationId)
                .preparing(1, participants, List.of())
                .in(phase);
    }

    /** Returns a coordinator of which all participants may have voted. */
    public static CoordinatorState sealed(
            String migrationId, List<String> participants, CoordinatorState.CoordinatorPhase phase) {
        return unsealed(migrationId, participants, phase).withEach(CoordinatorState.Member::withSealed);
    }

    /** Returns a participant that is connected to the source. */
    public static ParticipantState participant(
            String migrationId, List<String> participants, String self, ParticipantState.Phase phase) {
        return ParticipantState.fresh(migrationId).begun(1, participants, self).in(phase);
    }

    /** Returns the participant with its source lost or not. */
    public static ParticipantState withoutSource(ParticipantState state, boolean lost) {
        return state.withSourceLost(lost);
    }

    /** Returns the participant after its own decision to commit. */
    public static ParticipantState committedHere(ParticipantState state) {
        return state.decided(ParticipantState.Phase.COMMITTED, true, "");
    }
}
