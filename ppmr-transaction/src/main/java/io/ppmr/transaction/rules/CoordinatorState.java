package io.ppmr.transaction.rules;

import io.ppmr.transaction.journal.PlannedRank;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;

/**
 * The state of a coordinator. Immutable; {@link CoordinatorRules} makes the next one.
 *
 * @param attempt from 1; 0 before the start
 * @param members who takes part in this attempt, in order; empty in {@link CoordinatorPhase#NEW} alone
 * @param byOperator a rollback was decided although an original is gone
 * @param rollBackDecided a rollback was decided in this attempt, whatever came after
 * @param next who takes part in the next attempt, empty for none
 * @param reason of the failure, for people
 * @param originals the ranks with their processes as they are known, for the record of a later attempt
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
            // All members of an empty list have sealed, voted and confirmed: the rules would commit.
            throw new IllegalArgumentException("migration " + migrationId + " is " + phase + " without a participant");
        }
    }

    /** docs/internals/transaction.md, "The coordinator". */
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
     * A participant as the coordinator sees it.
     *
     * @param sealed its image may have become whole, so it may have voted
     * @param voted it has said prepared
     * @param confirmed it has said still held
     * @param answered the decision has reached it, or its node is off
     * @param lost its ranks are lost
     * @param fenceWindowNs how long after it has lost the source it may fence it, -1 where it is not known
     * @param silenceLimitNs after how much silence it takes a link for lost
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

    /** The state before {@link CoordinatorEvent.Start}. */
    public static CoordinatorState fresh(String migrationId) {
        return new CoordinatorState(
                migrationId, 0, CoordinatorPhase.NEW, List.of(), false, false, List.of(), "", List.of());
    }

    /** The names of the members, in order. */
    public List<String> participants() {
        return members.stream().map(Member::name).toList();
    }

    /** The member of that name, or null. */
    public Member member(String name) {
        return members.stream()
                .filter(member -> member.name().equals(name))
                .findFirst()
                .orElse(null);
    }

    /** Returns true if nothing is left to do. */
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

    /** Some ranks' processes are known better by now. */
    CoordinatorState holding(List<PlannedRank> held) {
        List<PlannedRank> changed = new ArrayList<>(originals);
        for (PlannedRank rank : held) {
            changed.replaceAll(old -> old.rank() == rank.rank() ? rank : old);
        }
        return new CoordinatorState(
                migrationId, attempt, phase, members, byOperator, rollBackDecided, next, reason, changed);
    }

    /** The originals with others in their participants' places. */
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
