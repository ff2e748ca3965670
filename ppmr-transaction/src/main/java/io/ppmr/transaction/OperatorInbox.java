package io.ppmr.transaction;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where operators' words for one migration come in and are answered. {@link #take} may be called by any thread, the
 * others are for the migration's.
 */
public final class OperatorInbox {
    private static final Logger LOG = LoggerFactory.getLogger(OperatorInbox.class);

    /** What the migration does with a word; called on its thread. */
    public interface Migration {
        /** Whether it would follow the word, and what it would mean. */
        OperatorVerdict ruling(OperatorDecision word);

        /** Follows the word. */
        void resolve(OperatorDecision word);

        /** Whether nothing is held here any more. */
        boolean isOver();

        /** How it has ended, in a sentence. */
        String ending();

        /** For whom ranks are held, or null. */
        String waitsFor();

        /** Whether what was asked for is still on its way: a fence command runs. */
        boolean seeksProof();
    }

    private final String id;
    private final Migration migration;
    private final Queue<OperatorCall> incoming = new ConcurrentLinkedQueue<>();
    private final List<OperatorCall> followed = new ArrayList<>();
    private final List<OperatorCall> fenced = new ArrayList<>();
    private volatile boolean closed;

    public OperatorInbox(String migrationId, Migration migration) {
        this.id = migrationId;
        this.migration = migration;
    }

    /** Takes a word. Any thread; false once the migration's thread has ended. */
    public boolean take(OperatorCall call) {
        incoming.add(call);
        return !closed || !incoming.remove(call);
    }

    /** Hears what has come in, and answers what can be answered. */
    public void work(long nowNs) {
        for (OperatorCall call = incoming.poll(); call != null; call = incoming.poll()) {
            hear(call, nowNs);
        }
        followed.removeIf(call -> isAnswered(call, nowNs));
    }

    private void hear(OperatorCall call, long nowNs) {
        OperatorVerdict ruling = migration.ruling(call.word());
        if (!ruling.allows() || !call.carriesOut()) {
            call.answer(Resolution.of(id, ruling));
            return;
        }
        LOG.warn("migration {}: {} decides: {}: {}", id, call.by(), call.word(), ruling.text());
        call.followed(nowNs);
        followed.add(call);
        if (ruling.how() == OperatorVerdict.How.AFTER_FENCE) {
            fenced.add(call);
        }
        migration.resolve(call.word());
    }

    private boolean isAnswered(OperatorCall call, long nowNs) {
        if (migration.isOver()) {
            call.answer(new Resolution(id, Resolution.Result.DONE, migration.ending()));
            return true;
        }
        boolean noProof = fenced.contains(call)
                && !migration.seeksProof()
                && migration.ruling(call.word()).allows();
        if (noProof) {
            call.answer(new Resolution(
                    id,
                    Resolution.Result.STILL_HELD,
                    "The source was not proved off by the fence command, or a target has not promised to hold on; "
                            + migration.waitsFor()));
            return true;
        }
        if (call.isDue(nowNs)) {
            call.answer(new Resolution(
                    id,
                    Resolution.Result.STILL_HELD,
                    "It is noted, but ranks are still held: "
                            + (migration.waitsFor() == null
                                    ? "it is being carried out; `ppmr status` says how far it is"
                                    : migration.waitsFor())));
            return true;
        }
        return false;
    }

    /** The migration's thread ends: what is still here is answered. */
    public void close() {
        closed = true;
        List<OperatorCall> left = new ArrayList<>(followed);
        for (OperatorCall call = incoming.poll(); call != null; call = incoming.poll()) {
            left.add(call);
        }
        left.forEach(call -> call.answer(new Resolution(
                id, followed.contains(call) ? Resolution.Result.DONE : Resolution.Result.REFUSED, migration.ending())));
        followed.clear();
    }
}
