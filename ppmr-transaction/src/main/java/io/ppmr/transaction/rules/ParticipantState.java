package io.ppmr.transaction.rules;

import io.ppmr.transaction.journal.FinalOutcome;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * The state of a participant. Immutable. {@link ParticipantRules} derives the next one.
 *
 * @param attempt newest known attempt, 0 for none
 * @param participants all participants of the attempt, in order, or empty if they are unknown
 * @param self this participant's name among them
 * @param sourceLost this participant has voted, and the source does not answer
 * @param round open fence window, named by its end; 0 for none
 * @param answers others that answered in this phase: with a promise for this round, a standing in a take-over, or
 *     an acknowledgement of the decision
 * @param fencing the fence command may be running, so the source's messages cannot roll this participant back
 * @param promised the first participant has a promise, so the source's messages cannot roll this participant back
 * @param aim outcome that a take-over works towards
 * @param othersCommitted another participant has committed
 * @param decidedHere this participant decided after a take-over, and must notify the others
 * @param done no step is left
 */
public record ParticipantState(
        String migrationId,
        int attempt,
        Phase phase,
        List<String> participants,
        String self,
        boolean sourceLost,
        long round,
        Set<String> answers,
        boolean fencing,
        boolean promised,
        FinalOutcome aim,
        boolean othersCommitted,
        boolean decidedHere,
        boolean done,
        String reason) {
    public ParticipantState {
        participants = List.copyOf(participants);
        answers = Set.copyOf(answers);
        boolean takesPart = phase == Phase.PREPARING || phase == Phase.PREPARED || phase == Phase.TAKEN_OVER;
        if (takesPart && !participants.contains(self)) {
            // It would wait for no other participant, and the rules would decide at once.
            throw new IllegalArgumentException("migration " + migrationId + " is " + phase + " at '" + self
                    + "', which is none of its participants " + participants);
        }
    }

    /** The phases of docs/transaction.md, "A participant". */
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
        return at(migrationId, 0, Phase.NOTHING, List.of(), "", false, FinalOutcome.COMMITTED, false, true, "");
    }

    /** Returns the beginning of a phase: no round is open, no answers, no fence, no promise. */
    private static ParticipantState at(
            String migrationId,
            int attempt,
            Phase phase,
            List<String> participants,
            String self,
            boolean sourceLost,
            FinalOutcome aim,
            boolean decidedHere,
            boolean done,
            String reason) {
        return new ParticipantState(
                migrationId,
                attempt,
                phase,
                participants,
                self,
                sourceLost,
                0,
                Set.of(),
                false,
                false,
                aim,
                false,
                decidedHere,
                done,
                reason);
    }

    /** Returns true if this participant has the duty to take over. */
    public boolean isFirst() {
        return isFirst(self);
    }

    /** Returns true if the named participant has the duty to take over. */
    public boolean isFirst(String participant) {
        return !participants.isEmpty() && participants.get(0).equals(participant);
    }

    /** Returns the other participants, in order. */
    public List<String> others() {
        return participants.stream().filter(name -> !name.equals(self)).toList();
    }

    /** Returns the other participants whose answers are missing. */
    public List<String> silent() {
        return others().stream().filter(name -> !answers.contains(name)).toList();
    }

    ParticipantState begun(int number, List<String> all, String name) {
        return at(migrationId, number, Phase.PREPARING, all, name, false, FinalOutcome.COMMITTED, false, false, "");
    }

    /** Returns the beginning of another phase, without the rounds and answers of the last one. */
    ParticipantState in(Phase next) {
        return in(next, FinalOutcome.COMMITTED);
    }

    private ParticipantState in(Phase next, FinalOutcome towards) {
        return at(migrationId, attempt, next, participants, self, sourceLost, towards, false, false, reason);
    }

    ParticipantState takenOver(FinalOutcome towards) {
        return in(Phase.TAKEN_OVER, towards);
    }

    ParticipantState decided(Phase next, boolean here, String why) {
        boolean over = !here || others().isEmpty();
        return at(migrationId, attempt, next, participants, self, false, FinalOutcome.COMMITTED, here, over, why);
    }

    /** Returns the state after a commit in an attempt that is otherwise unknown. */
    ParticipantState committedLongAgo(int number, boolean here) {
        return at(migrationId, number, Phase.COMMITTED, List.of(), "", false, FinalOutcome.COMMITTED, here, true, "");
    }

    /** Ends an attempt of which this participant will never have copies. */
    ParticipantState over(int number, String why) {
        return at(
                migrationId, number, Phase.ROLLED_BACK, List.of(), "", false, FinalOutcome.COMMITTED, false, true, why);
    }

    ParticipantState answeredBy(String participant, boolean committed) {
        Set<String> more = new TreeSet<>(answers);
        more.add(participant);
        return copy(sourceLost, round, more, fencing, promised, othersCommitted || committed, done);
    }

    ParticipantState withSourceLost(boolean lost) {
        return copy(lost, lost || fencing ? round : 0, lost ? answers : Set.of(), fencing, promised, false, done);
    }

    ParticipantState withRound(long number) {
        return copy(sourceLost, number, Set.of(), fencing, promised, false, done);
    }

    ParticipantState withFencing(boolean running) {
        return copy(sourceLost, running ? round : 0, running ? answers : Set.of(), running, promised, false, done);
    }

    ParticipantState withPromise(boolean binding) {
        return copy(sourceLost, round, answers, fencing, binding, othersCommitted, done);
    }

    ParticipantState finished() {
        return copy(sourceLost, round, answers, fencing, promised, othersCommitted, true);
    }

    private ParticipantState copy(
            boolean lost,
            long number,
            Set<String> from,
            boolean fence,
            boolean promise,
            boolean committed,
            boolean over) {
        return new ParticipantState(
                migrationId,
                attempt,
                phase,
                participants,
                self,
                lost,
                number,
                from,
                fence,
                promise,
                aim,
                committed,
                decidedHere,
                over,
                reason);
    }
}
