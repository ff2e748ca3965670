package io.ppmr.transaction.rules;

import java.util.ArrayList;
import java.util.List;

/**
 * The transition after an event: the next state and the effects, in order.
 *
 * @param <S> {@link CoordinatorState} or {@link ParticipantState}
 */
public record Transition<S>(S state, List<Effect> effects) {
    public Transition {
        effects = List.copyOf(effects);
    }

    /** Returns a transition without a change and without effects. */
    public static <S> Transition<S> stay(S state) {
        return new Transition<>(state, List.of());
    }

    static <S> Transition<S> of(S state, Effect... effects) {
        return new Transition<>(state, List.of(effects));
    }

    /** Returns this transition with further effects after its own. */
    Transition<S> and(List<? extends Effect> further) {
        List<Effect> all = new ArrayList<>(effects);
        all.addAll(further);
        return new Transition<>(state, all);
    }

    Transition<S> and(Effect further) {
        return and(List.of(further));
    }
}
