package io.ppmr.transaction.rules;

import io.ppmr.transaction.journal.FinalOutcome;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * The state of a participant. Immutable; {@link ParticipantRules} makes the next one.
 *
 * @param attempt the newest that it knows of, 0 for none
 * @param participants all who take part, in order; empty where it was never told
 * @param self its own name among them
 * @param sourceLost it has voted, and the source does not answer
 * @param round the open fence window, named by its end on the monotonic clock; 0 for none
 * @param answers others whose answer counts in this phase: their promise for this round, their standing in a take-over,
 *     their having heard the decision
 * @param fencing its fence command may be running: it does not roll back on the source's word
 * @param promised it has promised the first participant not to roll back on the source's word
 * @param aim what a take-over is to lead to
 * @param othersCommitted one of the others has committed
 * @param decidedHere it has decided after a take-over, and has to tell the others
 * @param done nothing is left to do
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
            // It would wait for no other participant: the rules would decide at once.
            throw new IllegalArgumentException("migration " + migrationId + " is " + phase + " at '" + self
                    + "', which is none of its participants " + participants);
        }
    }

    /** docs/internals/transaction.md, "A participant". */
    public enum Phase {
        NOTHING,
        PREPARING,
        PREPARED,
        TAKEN_OVER,
        COMMITTED,
        ROLLED_BACK
    }

    /** It has never heard of the migration. */
    public static ParticipantState nothing(String migrationId) {
        return at(migrationId, 0, Phase.NOTHING, List.of(), "", false, FinalOutcome.COMMITTED, false, true, "");
    }

    /** The beginning of a phase: no round is open in it, nobody has answered, nothing is fenced or promised. */
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

    /** Returns true if it has the duty to take over. */
    public boolean isFirst() {
        return isFirst(self);
    }

    /** Returns true if that is the one with the duty to take over. */
    public boolean isFirst(String participant) {
        return !participants.isEmpty() && participants.get(0).equals(participant);
    }

    /** Everybody but itself, in order. */
    public List<String> others() {
        return participants.stream().filter(name -> !name.equals(self)).toList();
    }

    /** Others whose answer is awaited. */
    public List<String> silent() {
        return others().stream().filter(name -> !answers.contains(name)).toList();
    }

    ParticipantState begun(int number, List<String> all, String name) {
        return at(migrationId, number, Phase.PREPARING, all, name, false, FinalOutcome.COMMITTED, false, false, "");
    }

    /** Another phase: what belonged to the last one is gone. */
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

    /** It committed in an attempt of which nothing else is known any more. */
    ParticipantState committedLongAgo(int number, boolean here) {
        return at(migrationId, number, Phase.COMMITTED, List.of(), "", false, FinalOutcome.COMMITTED, here, true, "");
    }

    /** An attempt that it will never have anything of. */
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
