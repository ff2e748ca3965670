package io.ppmr.target;

import io.ppmr.transaction.OpenMigration;
import io.ppmr.transaction.OperatorCall;
import io.ppmr.transaction.OperatorDesk;
import io.ppmr.transaction.OperatorWord;
import io.ppmr.transaction.Participant;
import io.ppmr.transaction.ParticipantState.Phase;
import io.ppmr.transaction.Ruling;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * A migration at this target as operators see it, and what they say to it. {@link #take} and {@link #open} may be
 * called by any thread, the others are for the migration's.
 */
final class OperatorView implements OperatorDesk.Migration {
    private static final long LOOK_NS = TimeUnit.SECONDS.toNanos(1);

    private final String id;
    private final Participant participant;
    private final BooleanSupplier over;
    private final Supplier<List<Integer>> heldRanks;
    private final OperatorDesk desk;
    private boolean takenUp;
    private long lookedNs;
    private Phase looked;
    private volatile OpenMigration open;

    /**
     * @param over whether nothing is left to do here
     * @param heldRanks proves which ranks are held just now
     */
    OperatorView(String id, Participant participant, BooleanSupplier over, Supplier<List<Integer>> heldRanks) {
        this.id = id;
        this.participant = participant;
        this.over = over;
        this.heldRanks = heldRanks;
        this.desk = new OperatorDesk(id, this);
    }

    /** Takes an operator's word; false once the migration's thread has ended. */
    boolean take(OperatorCall call) {
        return desk.take(call);
    }

    /** Where the migration stands, if an operator should know of it. */
    Optional<OpenMigration> open() {
        return Optional.ofNullable(open);
    }

    /** An earlier run of the service has begun it. */
    void takenUp() {
        takenUp = true;
    }

    /** Hears operators, and notes where it stands; not at each step, as that looks at processes. */
    void work() {
        desk.work(System.nanoTime());
        Phase phase = participant.state().phase();
        if (phase == looked && System.nanoTime() - lookedNs < LOOK_NS) {
            return;
        }
        looked = phase;
        lookedNs = System.nanoTime();
        String waitsFor = isOver() ? null : participant.waitsFor();
        open = isOver() || (waitsFor == null && !takenUp)
                ? null
                : new OpenMigration(
                        id,
                        phase.name(),
                        takenUp,
                        heldRanks.get(),
                        System.currentTimeMillis()
                                - TimeUnit.NANOSECONDS.toMillis(lookedNs - participant.waitsSinceNs()),
                        waitsFor);
    }

    /** The migration's thread ends. */
    void close() {
        open = null;
        desk.close();
    }

    @Override
    public Ruling ruling(OperatorWord word) {
        return participant.ruling(word);
    }

    @Override
    public void resolve(OperatorWord word) {
        participant.resolve(word, System.nanoTime());
    }

    @Override
    public boolean isOver() {
        return over.getAsBoolean();
    }

    @Override
    public String ending() {
        return switch (participant.state().phase()) {
            case COMMITTED -> "Migration " + id + " has committed: its copies run here.";
            case ROLLED_BACK -> "Migration " + id + " is rolled back: no copy of it is left here.";
            default -> "Migration " + id + " has nothing here.";
        };
    }

    @Override
    public String waitsFor() {
        return participant.waitsFor();
    }

    @Override
    public boolean seeksProof() {
        return participant.seeksProof();
    }
}
