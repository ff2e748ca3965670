package io.ppmr.transaction.rules;

import java.util.List;

/** States as tests of other packages need them, in the first attempt. */
public final class States {
    private States() {}

    /** A coordinator of which nobody may have voted. */
    public static CoordinatorState unsealed(
            String migrationId, List<String> participants, CoordinatorState.CoordinatorPhase phase) {
        return CoordinatorState.fresh(migrationId)
                .preparing(1, participants, List.of())
                .in(phase);
    }

    /** A coordinator of which all may have voted. */
    public static CoordinatorState sealed(
            String migrationId, List<String> participants, CoordinatorState.CoordinatorPhase phase) {
        return unsealed(migrationId, participants, phase).withEach(CoordinatorState.Member::withSealed);
    }

    /** A participant that hears the source. */
    public static ParticipantState participant(
            String migrationId, List<String> participants, String self, ParticipantState.Phase phase) {
        return ParticipantState.nothing(migrationId)
                .begun(1, participants, self)
                .in(phase);
    }

    /** The same participant, its source lost or not. */
    public static ParticipantState withoutSource(ParticipantState state, boolean lost) {
        return state.withSourceLost(lost);
    }

    /** The same participant when it has decided to commit by itself. */
    public static ParticipantState committedHere(ParticipantState state) {
        return state.decided(ParticipantState.Phase.COMMITTED, true, "");
    }
}
