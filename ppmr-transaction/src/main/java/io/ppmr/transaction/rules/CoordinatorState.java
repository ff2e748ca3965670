package io.ppmr.transaction.rules;

import io.ppmr.transaction.journal.PlannedRank;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;

/**
 * The state of a coordinator. Immutable. {@link CoordinatorRules} derives the next one.
 *
 * @param attempt number from 1, or 0 before the start
 * @param members participants of this attempt, in order; empty only in {@link CoordinatorPhase#NEW}
 * @param byOperator a rollback was decided although an original is gone
 * @param rollBackDecided a rollback was decided in this attempt, whatever followed
 * @param next participants of the next attempt, empty for none
 * @param reason cause of the failure, for people
 * @param originals ranks with their known processes, for the record of a later attempt
 */
public record CoordinatorState(
        String migrationId,
        int attempt,
        CoordinatorPhase phase,
        List<Member> members,
        boolean byOperator,
        boolean rollBackDecided,
        List<String> next,
        String reason,
        List<PlannedRank> originals) {
    public CoordinatorState {
        members = List.copyOf(members);
        next = List.copyOf(next);
        originals = List.copyOf(originals);
        if (members.isEmpty() && phase != CoordinatorPhase.NEW) {
            // In an empty list all members have sealed, voted and confirmed. The rules would commit.
            throw new IllegalArgumentException("migration " + migrationId + " is " + phase + " without a participant");
        }
    }

    /** The phases of docs/internals/transaction.md, "The coordinator". */
    public enum CoordinatorPhase {
        NEW,
        PREPARING,
        CONFIRMING,
        COMMITTING,
        ROLLING_BACK,
        BROKEN,
        COMMITTED,
        ROLLED_BACK
    }

    /**
     * A participant from the coordinator's view.
     *
     * @param sealed its image may have become whole, so it may have voted
     * @param voted it has sent Prepared
     * @param confirmed it has sent StillHeld
     * @param answered it has acknowledged the decision, or its node is off
     * @param lost its ranks are lost
     * @param fenceWindowNs time after the loss of the source in which it may fence the source, or -1 if unknown
     * @param silenceLimitNs silence after which it considers a link lost
     */
    public record Member(
            String name,
            boolean sealed,
            boolean voted,
            boolean confirmed,
            boolean answered,
            boolean lost,
            long fenceWindowNs,
            long silenceLimitNs) {
        static Member of(String name) {
            return new Member(name, false, false, false, false, false, -1, 0);
        }

        Member withWindow(long windowNs, long silenceNs) {
            return new Member(name, sealed, voted, confirmed, answered, lost, windowNs, silenceNs);
        }

        Member withSealed() {
            return new Member(name, true, voted, confirmed, answered, lost, fenceWindowNs, silenceLimitNs);
        }

        Member withVote() {
            return new Member(name, sealed, true, confirmed, answered, lost, fenceWindowNs, silenceLimitNs);
        }

        Member withConfirmed(boolean yes) {
            return new Member(name, sealed, voted, yes, answered, lost, fenceWindowNs, silenceLimitNs);
        }

        Member withAnswer(boolean ranksLost) {
            return new Member(name, sealed, voted, confirmed, true, ranksLost, fenceWindowNs, silenceLimitNs);
        }

        Member undecided() {
            return new Member(name, sealed, voted, false, false, false, fenceWindowNs, silenceLimitNs);
        }
    }

    /** Returns the state before {@link CoordinatorEvent.Start}. */
    public static CoordinatorState fresh(String migrationId) {
        return new CoordinatorState(
                migrationId, 0, CoordinatorPhase.NEW, List.of(), false, false, List.of(), "", List.of());
    }

    /** Returns the names of the members, in order. */
    public List<String> participants() {
        return members.stream().map(Member::name).toList();
    }

    /** Returns the member with this name, or null. */
    public Member member(String name) {
        return members.stream()
                .filter(member -> member.name().equals(name))
                .findFirst()
                .orElse(null);
    }

    /** Returns true if no step is left. */
    public boolean isOver() {
        return phase == CoordinatorPhase.COMMITTED || phase == CoordinatorPhase.ROLLED_BACK;
    }

    /** Returns true if there are members and each fulfils the condition. */
    boolean all(Predicate<Member> condition) {
        return !members.isEmpty() && members.stream().allMatch(condition);
    }

    CoordinatorState in(CoordinatorPhase next) {
        return new CoordinatorState(
                migrationId, attempt, next, members, byOperator, rollBackDecided, this.next, reason, originals);
    }

    CoordinatorState with(String name, UnaryOperator<Member> change) {
        List<Member> changed = new ArrayList<>(members);
        changed.replaceAll(member -> member.name().equals(name) ? change.apply(member) : member);
        return withMembers(changed);
    }

    CoordinatorState withEach(UnaryOperator<Member> change) {
        List<Member> changed = new ArrayList<>(members);
        changed.replaceAll(change);
        return withMembers(changed);
    }

    CoordinatorState withNext(List<String> participants) {
        return new CoordinatorState(
                migrationId, attempt, phase, members, byOperator, rollBackDecided, participants, reason, originals);
    }

    CoordinatorState failed(String why) {
        return new CoordinatorState(
                migrationId, attempt, phase, members, byOperator, rollBackDecided, next, why, originals);
    }

    CoordinatorState rollingBack(boolean operator) {
        return new CoordinatorState(
                migrationId, attempt, CoordinatorPhase.ROLLING_BACK, members, operator, true, next, reason, originals);
    }

    CoordinatorState preparing(int number, List<String> participants, List<PlannedRank> all) {
        return new CoordinatorState(
                migrationId,
                number,
                CoordinatorPhase.PREPARING,
                participants.stream().map(Member::of).toList(),
                false,
                false,
                List.of(),
                "",
                all);
    }

    /** Replaces the processes of ranks that are known better now. */
    CoordinatorState holding(List<PlannedRank> held) {
        List<PlannedRank> changed = new ArrayList<>(originals);
        for (PlannedRank rank : held) {
            changed.replaceAll(old -> old.rank() == rank.rank() ? rank : old);
        }
        return new CoordinatorState(
                migrationId, attempt, phase, members, byOperator, rollBackDecided, next, reason, changed);
    }

    /** Returns the originals with the given participants instead of this attempt's. */
    List<PlannedRank> originalsOf(List<String> participants) {
        List<String> before = participants();
        return originals.stream()
                .map(rank -> new PlannedRank(
                        rank.rank(), participants.get(before.indexOf(rank.participant())), rank.processes()))
                .toList();
    }

    private CoordinatorState withMembers(List<Member> changed) {
        return new CoordinatorState(
                migrationId, attempt, phase, changed, byOperator, rollBackDecided, next, reason, originals);
    }
}
