package io.ppmr.transaction.rules;

import io.ppmr.transaction.journal.FinalOutcome;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * The state of a participant. Immutable. {@link ParticipantRules} derives the next one.
 *
 * @param attempt newest known attempt, 0 for none
 * @param membership participants of the migration, and this participant's name among them
 * @param sourceLost this participant has voted, and the source does not answer
 * @param fence state of fencing the source
 * @param answers others that answered in this phase: with a promise for this round, a standing in a take-over, or
 *     an acknowledgement of the decision
 * @param aim outcome that a take-over works towards
 * @param othersCommitted another participant has committed
 * @param decidedHere this participant decided after a take-over, and must notify the others
 * @param done no step is left
 */
public record ParticipantState(
        String migrationId,
        int attempt,
        Phase phase,
        Membership membership,
        boolean sourceLost,
        FenceState fence,
        Set<String> answers,
        FinalOutcome aim,
        boolean othersCommitted,
        boolean decidedHere,
        boolean done,
        String reason) {
    public ParticipantState {
        answers = Set.copyOf(answers);
        boolean takesPart = phase == Phase.PREPARING || phase == Phase.PREPARED || phase == Phase.TAKEN_OVER;
        if (takesPart && !membership.participants().contains(membership.self())) {
            // It would wait for no other participant, and the rules would decide at once.
            throw new IllegalArgumentException("migration " + migrationId + " is " + phase + " at '" + membership.self()
                    + "', which is none of its participants " + membership.participants());
        }
    }

    /**
     * The participants of a migration.
     *
     * @param participants all of them, in order; empty if it never received them
     * @param self its own name among them; empty if it never received it
     */
    public record Membership(List<String> participants, String self) {
        static final Membership NONE = new Membership(List.of(), "");

        public Membership {
            participants = List.copyOf(participants);
        }
    }

    /**
     * The state of fencing the source, which belongs to one phase.
     *
     * @param round the open fence window, named by its end on the monotonic clock; 0 for none
     * @param fencing its fence command may be running: it does not roll back on the source's word
     * @param promised it promised the first participant not to roll back on the source's word
     */
    public record FenceState(long round, boolean fencing, boolean promised) {
        static final FenceState NONE = new FenceState(0, false, false);
    }

    /** The phases of docs/internals/transaction.md, "A participant". */
    public enum Phase {
        NOTHING,
        PREPARING,
        PREPARED,
        TAKEN_OVER,
        COMMITTED,
        ROLLED_BACK
    }

    /** Returns the state of a node that has received nothing about the migration. */
    public static ParticipantState fresh(String migrationId) {
        return at(migrationId, 0, Phase.NOTHING, Membership.NONE, false, FinalOutcome.COMMITTED, false, true, "");
    }

    /** Returns the beginning of a phase: no round is open, no answers, no fence, no promise. */
    private static ParticipantState at(
            String migrationId,
            int attempt,
            Phase phase,
            Membership membership,
            boolean sourceLost,
            FinalOutcome aim,
            boolean decidedHere,
            boolean done,
            String reason) {
        return new ParticipantState(
                migrationId,
                attempt,
                phase,
                membership,
                sourceLost,
                FenceState.NONE,
                Set.of(),
                aim,
                false,
                decidedHere,
                done,
                reason);
    }

    /** Lists all participants of the migration, in order; empty if it never received them. */
    public List<String> participants() {
        return membership.participants();
    }

    /** Returns its own name among the participants; empty if it never received it. */
    public String self() {
        return membership.self();
    }

    /** Returns the open fence window, named by its end on the monotonic clock; 0 for none. */
    public long round() {
        return fence.round();
    }

    /** Returns true if its fence command may be running. */
    public boolean fencing() {
        return fence.fencing();
    }

    /** Returns true if it promised the first participant not to roll back on the source's word. */
    public boolean promised() {
        return fence.promised();
    }

    /** Returns true if this participant has the duty to take over. */
    public boolean isFirst() {
        return isFirst(self());
    }

    /** Returns true if the named participant has the duty to take over. */
    public boolean isFirst(String participant) {
        return !participants().isEmpty() && participants().get(0).equals(participant);
    }

    /** Returns the other participants, in order. */
    public List<String> others() {
        return participants().stream().filter(name -> !name.equals(self())).toList();
    }

    /** Returns the other participants whose answers are missing. */
    public List<String> silent() {
        return others().stream().filter(name -> !answers.contains(name)).toList();
    }

    ParticipantState begun(int number, List<String> all, String name) {
        return at(
                migrationId,
                number,
                Phase.PREPARING,
                new Membership(all, name),
                false,
                FinalOutcome.COMMITTED,
                false,
                false,
                "");
    }

    /** Returns the beginning of another phase, without the rounds and answers of the last one. */
    ParticipantState in(Phase next) {
        return in(next, FinalOutcome.COMMITTED);
    }

    private ParticipantState in(Phase next, FinalOutcome towards) {
        return at(migrationId, attempt, next, membership, sourceLost, towards, false, false, reason);
    }

    ParticipantState takenOver(FinalOutcome towards) {
        return in(Phase.TAKEN_OVER, towards);
    }

    ParticipantState decided(Phase next, boolean here, String why) {
        boolean over = !here || others().isEmpty();
        return at(migrationId, attempt, next, membership, false, FinalOutcome.COMMITTED, here, over, why);
    }

    /** Returns the state after a commit in an attempt that is otherwise unknown. */
    ParticipantState committedLongAgo(int number, boolean here) {
        return at(migrationId, number, Phase.COMMITTED, Membership.NONE, false, FinalOutcome.COMMITTED, here, true, "");
    }

    /** Ends an attempt of which this participant will never have copies. */
    ParticipantState over(int number, String why) {
        return at(
                migrationId,
                number,
                Phase.ROLLED_BACK,
                Membership.NONE,
                false,
                FinalOutcome.COMMITTED,
                false,
                true,
                why);
    }

    ParticipantState answeredBy(String participant, boolean committed) {
        Set<String> more = new TreeSet<>(answers);
        more.add(participant);
        return copy(sourceLost, fence, more, othersCommitted || committed, done);
    }

    ParticipantState withSourceLost(boolean lost) {
        FenceState next = new FenceState(lost || fencing() ? round() : 0, fencing(), promised());
        return copy(lost, next, lost ? answers : Set.of(), false, done);
    }

    ParticipantState withRound(long number) {
        return copy(sourceLost, new FenceState(number, fencing(), promised()), Set.of(), false, done);
    }

    ParticipantState withFencing(boolean running) {
        FenceState next = new FenceState(running ? round() : 0, running, promised());
        return copy(sourceLost, next, running ? answers : Set.of(), false, done);
    }

    ParticipantState withPromise(boolean binding) {
        return copy(sourceLost, new FenceState(round(), fencing(), binding), answers, othersCommitted, done);
    }

    ParticipantState finished() {
        return copy(sourceLost, fence, answers, othersCommitted, true);
    }

    private ParticipantState copy(boolean lost, FenceState fencing, Set<String> from, boolean committed, boolean over) {
        return new ParticipantState(
                migrationId,
                attempt,
                phase,
                membership,
                lost,
                fencing,
                from,
                aim,
                committed,
                decidedHere,
                over,
                reason);
    }
}
