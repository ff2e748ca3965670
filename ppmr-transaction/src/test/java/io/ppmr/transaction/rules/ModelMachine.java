package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Runs the rules in a {@link ModelWorld}, with numbers for states, journals, messages and effects. */
@SuppressWarnings("EnumOrdinal") // A compact encoding of states, for this run alone.
final class ModelMachine {
    static final String ID = "m";
    static final List<String> NAMES = List.of("a", "b");
    private static final int NEVER = Integer.MAX_VALUE;
    /** The first of two originals is killed. They do not end at once. */
    private static final int FIRST_HALF = -2;

    /** A sent message. From and to are nodes, where 0 is the source. */
    record SentMessage(int from, int to, int attempt, ControlMessage message) {}

    /** A journal, and the number of its records on the disk. */
    record Journal(List<TransactionRecord> records, int synced) {}

    /** An effect, with the number of its message or record. */
    private record Op(Effect effect, int number) {
        /** Returns true if the effect is only a report. A crash after it equals one before it. */
        boolean isReport() {
            return effect instanceof Effect.Report || effect instanceof Effect.Finished;
        }
    }

    private record Step(int next, List<Op> effects) {}

    private final ModelVariant variant;
    private final Class<? extends TransactionRecord> notSynced;
    private final boolean writeAhead;
    final ModelNumbers<Object> states = new ModelNumbers<>();
    final ModelNumbers<Journal> journals = new ModelNumbers<>();
    final ModelNumbers<SentMessage> messages = new ModelNumbers<>();
    private final ModelNumbers<Object> events = new ModelNumbers<>();
    private final Map<Long, Step> steps = new HashMap<>();
    private final ModelNumbers<TransactionRecord> records = new ModelNumbers<>();
    private final Map<Long, Integer> appended = new HashMap<>();
    private final Map<Integer, Integer> recoveries = new HashMap<>();
    private final List<Integer> messageEvents = new ArrayList<>();
    private final List<Boolean> committedJournals = new ArrayList<>();
    private int done;
    String violation;

    /** @param writeAhead whether an action or report before its record is on the disk counts as a violation */
    ModelMachine(ModelVariant variant, Class<? extends TransactionRecord> notSynced, boolean writeAhead) {
        this.variant = variant;
        this.notSynced = notSynced;
        this.writeAhead = writeAhead;
    }

    ModelWorld start(ModelBudget budget) {
        ModelWorld world = new ModelWorld();
        int empty = journals.of(new Journal(List.of(), 0));
        world.state[0] = states.of(CoordinatorState.fresh(ID));
        world.journal[0] = empty;
        for (int node = 1; node <= 2; node++) {
            world.state[node] = states.of(ParticipantState.fresh(ID));
            world.journal[node] = empty;
        }
        world.budget = budget.packed();
        return world;
    }

    CoordinatorState coordinator(ModelWorld world) {
        return (CoordinatorState) states.get(world.state[0]);
    }

    ParticipantState participant(ModelWorld world, int target) {
        return (ParticipantState) states.get(world.state[target + 1]);
    }

    /** Runs an event to its end. Returns false if it changes nothing. */
    boolean run(ModelWorld world, int node, Object event) {
        return run(world, node, event, NEVER);
    }

    /** Returns the number of effects of the last run. */
    int effects() {
        return done;
    }

    /** Runs an event, with a crash of the service after the given number of effects. */
    boolean run(ModelWorld world, int node, Object event, int crashAfter) {
        return run(world, node, events.of(event), crashAfter);
    }

    /** Runs the event of that number, with a crash of the service after the given number of effects. */
    boolean run(ModelWorld world, int node, int event, int crashAfter) {
        done = 0;
        Step first = step(world, node, event);
        if (first.next() == world.state[node] && first.effects().isEmpty()) {
            return false;
        }
        Deque<Object> waiting = new ArrayDeque<>();
        boolean changed = false;
        Step step = first;
        while (step != null) {
            changed |= step.next() != world.state[node] || !step.effects().isEmpty();
            world.state[node] = step.next();
            for (Op op : step.effects()) {
                if (writeAhead) {
                    requireOnDisk(world, node, op.effect());
                }
                if (op.isReport()) {
                    continue;
                }
                perform(world, node, op, waiting);
                check(world);
                done++;
                if (done == crashAfter) {
                    crash(world, node);
                    return true;
                }
            }
            step = waiting.isEmpty() ? null : step(world, node, events.of(waiting.poll()));
        }
        return changed;
    }

    void crash(ModelWorld world, int node) {
        Journal journal = journals.get(world.journal[node]);
        world.state[node] = -1;
        world.journal[node] =
                journals.of(new Journal(List.copyOf(journal.records().subList(0, journal.synced())), journal.synced()));
    }

    /** Returns the number of an event. */
    int event(Object event) {
        return events.of(event);
    }

    /** Returns the number of the event that handles this message. */
    int messageEvent(int number) {
        while (messageEvents.size() < messages.size()) {
            SentMessage sentMessage = messages.get(messageEvents.size());
            Object event = sentMessage.to() == 0
                    ? new CoordinatorEvent.ParticipantMessage(
                            NAMES.get(sentMessage.from() - 1), sentMessage.attempt(), sentMessage.message())
                    : sentMessage.from() == 0
                            ? new ParticipantEvent.CoordinatorMessage(sentMessage.attempt(), sentMessage.message())
                            : new ParticipantEvent.PeerMessage(
                                    NAMES.get(sentMessage.from() - 1), sentMessage.attempt(), sentMessage.message(), 0);
            messageEvents.add(events.of(event));
        }
        return messageEvents.get(number);
    }

    private Step step(ModelWorld world, int node, int event) {
        long key = ((long) world.state[node] * 3 + node) << 32 | event;
        Step known = steps.get(key);
        if (known != null) {
            return known;
        }
        Transition<?> transition = transition(world, node, events.get(event));
        Object next = transition.state() instanceof CoordinatorState state
                ? state.failed("")
                : ModelTexts.without((ParticipantState) transition.state());
        Step step = new Step(
                states.of(next),
                transition.effects().stream()
                        .filter(ModelTexts::matters)
                        .flatMap(effect -> ops(node, effect))
                        .toList());
        steps.put(key, step);
        return step;
    }

    private Transition<?> transition(ModelWorld world, int node, Object event) {
        if (event instanceof CoordinatorEvent arrived) {
            return variant.apply(coordinator(world), arrived);
        }
        return event instanceof ParticipantEvent arrived
                ? variant.apply(participant(world, node - 1), arrived)
                : (Transition<?>) event;
    }

    /** Returns the number of the event that starts the service with its journal. */
    int recoveryEvent(ModelWorld world, int node) {
        int key = (world.journal[node] * 3 + node) * 3 + originals(world).ordinal();
        return recoveries.computeIfAbsent(key, unknown -> events.of(recovery(world, node)));
    }

    /** Starts the service again with its journal. */
    Transition<?> recovery(ModelWorld world, int node) {
        List<TransactionRecord> records = journals.get(world.journal[node]).records();
        return node == 0
                ? CoordinatorRules.recover(ID, records, originals(world))
                : ParticipantRules.recover(ID, records);
    }

    OriginalsState originals(ModelWorld world) {
        if (world.alive != 3) {
            return OriginalsState.DEAD;
        }
        boolean stoodStill = world.moved == 0 || variant == ModelVariant.PROVE_BY_STATE_ALONE;
        return world.held == 3 && stoodStill ? OriginalsState.HELD : OriginalsState.ALIVE;
    }

    /** Closes the links of a node that was off. Messages in transit on them are lost. */
    void dropMessagesOfSource(ModelWorld world) {
        for (int number = 0; number < messages.size(); number++) {
            if (messages.get(number).from() == 0) {
                world.unsay(number);
            }
        }
    }

    private Stream<Op> ops(int node, Effect effect) {
        if (effect instanceof Effect.StartAttempt start) {
            return start.participants().stream()
                    .map(name -> new Op(
                            effect,
                            numberOf(
                                    node,
                                    NAMES.indexOf(name) + 1,
                                    start.attempt(),
                                    Begins.of(ID, start.participants(), name))));
        }
        return effect instanceof Effect.EndOriginals
                ? Stream.of(new Op(effect, FIRST_HALF), new Op(effect, -1))
                : Stream.of(op(node, effect));
    }

    /** Requires that an effect on a process, or a report, follows its record on the disk. */
    private void requireOnDisk(ModelWorld world, int node, Effect effect) {
        Journal journal = journals.get(world.journal[node]);
        List<TransactionRecord> onDisk = journal.records().subList(0, journal.synced());
        Class<? extends TransactionRecord> wanted = null;
        if (effect instanceof Effect.EndOriginals) {
            wanted = TransactionRecord.CommitDecided.class;
        } else if (effect instanceof Effect.ContinueOriginals) {
            wanted = TransactionRecord.RollBackDecided.class;
        } else if (effect instanceof Effect.ReleaseCopies) {
            wanted = TransactionRecord.CommittedHere.class;
        } else if (effect instanceof Effect.Finished) {
            wanted = TransactionRecord.Done.class;
        } else if (effect instanceof Effect.Report && node == 0 && isBroken(world)) {
            wanted = TransactionRecord.Broken.class;
        }
        if (wanted != null && onDisk.stream().noneMatch(wanted::isInstance)) {
            violation = effect.getClass().getSimpleName() + " before " + wanted.getSimpleName() + " is on the disk";
        }
    }

    private boolean isBroken(ModelWorld world) {
        return coordinator(world).phase() == CoordinatorState.CoordinatorPhase.BROKEN;
    }

    private Op op(int node, Effect effect) {
        if (effect instanceof Effect.Persist persist) {
            return new Op(effect, records.of(ModelTexts.without(persist.record())));
        }
        if (effect instanceof Effect.Send send) {
            return new Op(
                    effect, numberOf(node, NAMES.indexOf(send.participant()) + 1, send.attempt(), send.message()));
        }
        return new Op(
                effect,
                effect instanceof Effect.Reply reply ? numberOf(node, 0, reply.attempt(), reply.message()) : -1);
    }

    private void perform(ModelWorld world, int node, Op op, Deque<Object> waiting) {
        Effect effect = op.effect();
        if (effect instanceof Effect.Persist) {
            persist(world, node, op.number());
        } else if (op.number() >= 0) {
            world.say(op.number());
        } else if (effect instanceof Effect.Seal seal) {
            world.whole |= 1 << (2 * (coordinator(world).attempt() - 1) + NAMES.indexOf(seal.participant()));
        } else if (effect instanceof Effect.EvaluateFailure judge) {
            waiting.add(failed(world, judge.copiesGone(), true));
        } else if (effect instanceof Effect.ProveOriginals) {
            waiting.add(new CoordinatorEvent.Proved(originals(world), ""));
        } else if (effect instanceof Effect.EndOriginals) {
            world.alive &= op.number() == FIRST_HALF ? ~1 : 0;
        } else if (effect instanceof Effect.ContinueOriginals) {
            world.held = 0;
            world.moved = 0;
            world.continued = true;
            if (world.ran) {
                violation = "originals continue after a copy ran";
            }
        } else if (effect instanceof Effect.ProveCopies) {
            boolean held = world.copy[node - 1] == ModelWorld.HELD;
            waiting.add(new ParticipantEvent.CopiesProved(held ? "" : "gone"));
        } else {
            performOnCopies(world, node - 1, effect, waiting);
        }
    }

    private void performOnCopies(ModelWorld world, int target, Effect effect, Deque<Object> waiting) {
        if (effect instanceof Effect.StartRestore) {
            world.copy[target] = ModelWorld.RESTORING;
        } else if (effect instanceof Effect.ReleaseCopies) {
            if (world.copy[target] == ModelWorld.HELD) {
                world.copy[target] = ModelWorld.RUNNING;
                world.ran = true;
            }
        } else if (effect instanceof Effect.EndCopies) {
            world.copy[target] = ModelWorld.NONE;
        } else if (effect instanceof Effect.FenceSource) {
            if (world.copy[target] == ModelWorld.HELD) {
                world.fencing |= 1 << target;
            } else {
                waiting.add(new ParticipantEvent.FenceEnded(false));
            }
        }
    }

    CoordinatorEvent.AttemptFailure failed(ModelWorld world, boolean copiesGone, boolean again) {
        CoordinatorState state = coordinator(world);
        // The other target is the first one in the second attempt.
        List<String> next = again && state.attempt() == 1 ? List.of("b", "a") : List.of();
        return new CoordinatorEvent.AttemptFailure("", copiesGone, originals(world), next);
    }

    private void persist(ModelWorld world, int node, int number) {
        long key = (long) world.journal[node] << 32 | number;
        TransactionRecord record = records.get(number);
        if (record instanceof TransactionRecord.Begun begun && begun.attempt() > 1) {
            requireReleased(world, begun.attempt() - 1);
        }
        if (record instanceof TransactionRecord.CommitDecided && world.alive == 3 && world.moved != 0) {
            // A take-over that committed could not prove the originals. If an original is gone, only the copies are
            // left.
            boolean hasCommitRecord = hasCommitted(world.journal[1]) || hasCommitted(world.journal[2]);
            violation = hasCommitRecord ? violation : "committed although an original ran after its image was written";
        }
        Integer known = appended.get(key);
        world.journal[node] = known != null ? known : append(journals.get(world.journal[node]), record, key);
    }

    private int append(Journal journal, TransactionRecord record, long key) {
        boolean sync = notSynced == null || !notSynced.isInstance(record);
        List<TransactionRecord> all = new ArrayList<>(journal.records());
        if (!isRepeated(journal, record)) {
            all.add(record);
        }
        int next = journals.of(new Journal(List.copyOf(all), sync ? all.size() : journal.synced()));
        appended.put(key, next);
        return next;
    }

    /** Returns true for records that change nothing if they are repeated. Their number must not grow. */
    private static boolean isRepeated(Journal journal, TransactionRecord record) {
        boolean lasting = record instanceof TransactionRecord.Promised || record instanceof TransactionRecord.Fencing;
        int size = journal.records().size();
        return record instanceof TransactionRecord.LostSource
                || (lasting && journal.records().contains(record))
                || (size > 0
                        && journal.synced() == size
                        && journal.records().get(size - 1).equals(record));
    }

    private void requireReleased(ModelWorld world, int attempt) {
        for (int target = 0; target < 2; target++) {
            boolean sealed = (world.whole >> (2 * (attempt - 1) + target) & 1) != 0;
            boolean over = journals.get(world.journal[target + 1]).records().stream()
                    .anyMatch(record ->
                            record instanceof TransactionRecord.RolledBackHere && record.attempt() == attempt);
            if (sealed && !over && !world.isOff(target + 1)) {
                violation = "another attempt begins before " + NAMES.get(target) + " was released";
            }
        }
    }

    private int numberOf(int from, int to, int attempt, ControlMessage message) {
        return messages.of(new SentMessage(from, to, attempt, ModelTexts.without(message)));
    }

    /** Checks all invariants. */
    void check(ModelWorld world) {
        boolean running = world.copy[0] == ModelWorld.RUNNING || world.copy[1] == ModelWorld.RUNNING;
        if (running && world.alive != 0) {
            violation = "an original lives while a copy runs";
        }
        if (running && world.continued) {
            violation = "a copy runs after the originals have continued";
        }
        boolean committed = hasCommitted(world.journal[1]) || hasCommitted(world.journal[2]);
        boolean ended = false;
        for (int target = 0; target < 2; target++) {
            int copy = world.copy[target];
            ended |= world.ran && (copy == ModelWorld.NONE || copy == ModelWorld.RESTORING) && !world.isOff(target + 1);
        }
        if (committed && ended) {
            violation = "half of the copies run";
        }
        if (committed && world.continued) {
            violation = "committed here, and the originals have continued";
        }
        boolean copies = lives(world.copy[0]) && lives(world.copy[1]);
        if (world.alive != 3 && !copies && !world.excused) {
            violation = "no copy is left, and no case is named for it";
        }
    }

    private boolean hasCommitted(int journal) {
        while (committedJournals.size() < journals.size()) {
            committedJournals.add(journals.get(committedJournals.size()).records().stream()
                    .anyMatch(record -> record instanceof TransactionRecord.CommittedHere));
        }
        return committedJournals.get(journal);
    }

    private static boolean lives(int copy) {
        return copy == ModelWorld.HELD || copy == ModelWorld.RUNNING;
    }
}
