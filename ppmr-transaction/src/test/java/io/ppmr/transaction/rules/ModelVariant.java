package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.CoordinatorState.CoordinatorPhase;
import io.ppmr.transaction.rules.CoordinatorState.Member;
import java.util.ArrayList;
import java.util.List;

/** The real rules, and variants that are broken on purpose. */
enum ModelVariant {
    REAL,
    COMMIT_BEFORE_ALL_VOTES,
    SKIP_LAST_ROUND,
    NEXT_ATTEMPT_BEFORE_VOTER_RELEASED,
    CONTINUE_BEFORE_ANSWERS,
    TAKE_OVER_WITHOUT_FENCE,
    FENCE_WITHOUT_PROMISES,
    /** Promises the requested time and keeps it for a shorter one. Here that is no time at all. */
    PROMISE_AND_KEEP_IT_SHORTER,
    RELEASE_BEFORE_ORIGINALS_END,
    COMMIT_WHATEVER_ORIGINALS_DO,
    ACCEPT_COMMIT_BEFORE_ALL_ARE_SEALED,
    /** Breaks the proof instead of a rule: a process that was continued and stopped again passes. */
    PROVE_BY_STATE_ALONE;

    Transition<CoordinatorState> apply(CoordinatorState state, CoordinatorEvent event) {
        Transition<CoordinatorState> real = CoordinatorRules.apply(state, event);
        boolean ran = state.phase() == CoordinatorPhase.CONFIRMING
                && event instanceof CoordinatorEvent.Proved proved
                && proved.originals() == OriginalsState.ALIVE;
        if (this == COMMIT_WHATEVER_ORIGINALS_DO && ran) {
            return CoordinatorRules.apply(state, new CoordinatorEvent.Proved(OriginalsState.HELD, ""));
        }
        boolean early = event instanceof CoordinatorEvent.ParticipantMessage arrived
                && arrived.message() instanceof ControlMessage.Committed
                && state.phase() == CoordinatorPhase.PREPARING;
        if (this == ACCEPT_COMMIT_BEFORE_ALL_ARE_SEALED && early) {
            return commitNow(state);
        }
        boolean vote = event instanceof CoordinatorEvent.ParticipantMessage arrived
                && arrived.message() instanceof ControlMessage.Prepared
                && state.phase() == CoordinatorPhase.PREPARING;
        if (this == COMMIT_BEFORE_ALL_VOTES
                && vote
                && real.state().members().stream().anyMatch(Member::voted)) {
            return commitNow(state);
        }
        if (this == SKIP_LAST_ROUND && vote && real.state().phase() == CoordinatorPhase.CONFIRMING) {
            return commitNow(real.state());
        }
        boolean decided =
                state.phase() != CoordinatorPhase.ROLLING_BACK && real.state().phase() == CoordinatorPhase.ROLLING_BACK;
        boolean letGoAtOnce = (this == NEXT_ATTEMPT_BEFORE_VOTER_RELEASED
                        && !real.state().next().isEmpty())
                || this == CONTINUE_BEFORE_ANSWERS;
        if (decided && letGoAtOnce) {
            CoordinatorState all = real.state().withEach(member -> member.withAnswer(false));
            return join(real, CoordinatorRules.apply(all, new CoordinatorEvent.Proved(OriginalsState.HELD, "")));
        }
        if (this == RELEASE_BEFORE_ORIGINALS_END && real.effects().contains(new Effect.EndOriginals())) {
            List<Effect> effects = new ArrayList<>(real.effects());
            effects.remove(new Effect.EndOriginals());
            effects.add(new Effect.EndOriginals());
            return new Transition<>(real.state(), effects);
        }
        return real;
    }

    private static Transition<CoordinatorState> commitNow(CoordinatorState state) {
        CoordinatorState confirmed =
                state.in(CoordinatorPhase.CONFIRMING).withEach(member -> member.withConfirmed(true));
        return CoordinatorRules.apply(confirmed, new CoordinatorEvent.Proved(OriginalsState.HELD, ""));
    }

    Transition<ParticipantState> apply(ParticipantState state, ParticipantEvent event) {
        Transition<ParticipantState> real = ParticipantRules.apply(state, event);
        boolean fence = real.effects().contains(new Effect.FenceSource());
        if (this == TAKE_OVER_WITHOUT_FENCE && fence) {
            return join(real, ParticipantRules.apply(real.state(), new ParticipantEvent.FenceEnded(true)));
        }
        if (this == FENCE_WITHOUT_PROMISES
                && event instanceof ParticipantEvent.SourceFenceDue
                && real.state().round() != 0) {
            return new Transition<>(real.state().withFencing(true), List.of(new Effect.FenceSource()));
        }
        if (this == PROMISE_AND_KEEP_IT_SHORTER
                && !state.promised()
                && real.state().promised()) {
            return new Transition<>(real.state().withPromise(false), real.effects());
        }
        return real;
    }

    private static <S> Transition<S> join(Transition<S> first, Transition<S> second) {
        List<Effect> effects = new ArrayList<>(first.effects());
        effects.removeIf(effect -> effect instanceof Effect.FenceSource || effect instanceof Effect.ProveOriginals);
        effects.addAll(second.effects());
        return new Transition<>(second.state(), effects);
    }
}
