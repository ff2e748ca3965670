package io.ppmr.transaction.journal;

import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.control.MigrationSecret;
import java.util.List;
import java.util.Optional;

/**
 * A record of the journal, one for each step; docs/internals/transaction.md says which are synced and when. The journal
 * adds the time of each.
 */
public sealed interface TransactionRecord {
    /** Returns the name of the migration. */
    String migrationId();

    /** Returns the number of the attempt, from 1; 0 where it is about all of them. */
    int attempt();

    /** Returns true if it belongs to the rules; the others are for the services and for {@code ppmr history}. */
    default boolean isStep() {
        return !(this instanceof Asked
                || this instanceof StepTimed
                || this instanceof JobPlacement
                || this instanceof CopyEnded
                || this instanceof PagesChosen
                || this instanceof JobStopped
                || this instanceof Frozen
                || this instanceof Secret);
    }

    /** Writes the number of its type and its fields, as the journal keeps them. */
    void write(RecordCodec.Writer out);

    /** The last of these records that is of that kind. */
    static <T extends TransactionRecord> Optional<T> last(List<TransactionRecord> records, Class<T> kind) {
        return records.stream().filter(kind::isInstance).map(kind::cast).reduce((earlier, later) -> later);
    }

    private static List<String> someone(List<String> participants) {
        if (participants.isEmpty()) {
            throw new IllegalArgumentException("a migration without a participant is none");
        }
        return List.copyOf(participants);
    }

    /**
     * Returns true if a migration's records can begin with this step. The others decide or carry out what a recorded
     * plan or vote says, and mean nothing without it.
     */
    default boolean isBeginning() {
        return this instanceof Begun
                || this instanceof PreparedHere
                || this instanceof CommittedHere
                || this instanceof RolledBackHere
                || this instanceof Done;
    }

    /** Reads the fields of a record; null for a type that there is not. */
    static TransactionRecord read(int type, RecordCodec.FieldSource in) {
        String id = in.text();
        int attempt = in.int32();
        return switch (type) {
            case 1 -> new Begun(id, attempt, in.texts(), in.ranks());
            case 2 -> new Sealed(id, attempt, in.text(), in.ranks(), in.int64(), in.int64());
            case 3 -> new CommitDecided(id, attempt);
            case 4 -> new RollBackDecided(id, attempt, in.text(), in.flag());
            case 5 -> new Broken(id, attempt, in.text());
            case 6 ->
                new PreparedHere(
                        id, attempt, in.texts(), in.text(), in.text(), in.ranks(), in.int64(), RecordedClock.AWAKE);
            case 7 -> new LostSource(id, attempt, in.int64(), RecordedClock.AWAKE);
            case 8 -> new Promised(id, attempt, in.int64(), RecordedClock.AWAKE);
            case 9 -> new Fencing(id, attempt, in.int64(), RecordedClock.AWAKE);
            case 10 -> new TakenOver(id, attempt, in.outcome());
            case 11 -> new CommittedHere(id, attempt, in.flag());
            case 12 -> new RolledBackHere(id, attempt, in.text(), in.flag());
            case 13 -> new Done(id, attempt, in.outcome(), in.text());
            case 14 -> new Asked(id, attempt, in.text(), in.text(), in.text());
            case 15 -> new StepTimed(id, attempt, in.text(), in.int32(), in.text(), in.int64(), in.int64(), in.int64());
            case 16 -> new JobPlacement(id, attempt, in.text(), in.int32(), in.int32(), in.text(), in.texts());
            case 17 -> new CopyEnded(id, attempt, in.flag(), in.text());
            case 18 -> new JobStopped(id, attempt, in.ranks());
            case 19 ->
                new PreparedHere(
                        id, attempt, in.texts(), in.text(), in.text(), in.ranks(), in.int64(), RecordedClock.BOOT);
            case 20 -> new LostSource(id, attempt, in.int64(), RecordedClock.BOOT);
            case 21 -> new Promised(id, attempt, in.int64(), RecordedClock.BOOT);
            case 22 -> new Fencing(id, attempt, in.int64(), RecordedClock.BOOT);
            case 23 -> new Secret(id, attempt, new MigrationSecret(in.int64(), in.int64()));
            case 24 -> new Frozen(id, attempt, in.texts());
            case 25 -> new PagesChosen(id, attempt, in.text());
            default -> null;
        };
    }

    /** The clock by which a record's time was taken. Neither means anything after the next boot. */
    enum RecordedClock {
        /** {@code CLOCK_MONOTONIC}, of earlier releases: it is stopped while the machine is suspended. */
        AWAKE,
        /** {@code CLOCK_BOOTTIME}: it continues meanwhile. */
        BOOT
    }

    /** Coordinator: an attempt begins. One without a participant is no record: {@link IllegalArgumentException}. */
    record Begun(String migrationId, int attempt, List<String> participants, List<PlannedRank> originals)
            implements TransactionRecord {
        public Begun {
            participants = someone(participants);
            originals = List.copyOf(originals);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(1, this).texts(participants).ranks(originals);
        }
    }

    /**
     * Coordinator: the image for a participant may become whole, so it may vote.
     *
     * @param held the originals in it, now that they are held
     * @param fenceWindowNs the participant's, from its Accept
     * @param silenceLimitNs the participant's
     */
    record Sealed(
            String migrationId,
            int attempt,
            String participant,
            List<PlannedRank> held,
            long fenceWindowNs,
            long silenceLimitNs)
            implements TransactionRecord {
        public Sealed {
            held = List.copyOf(held);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(2, this)
                    .text(participant)
                    .ranks(held)
                    .number(fenceWindowNs)
                    .number(silenceLimitNs);
        }
    }

    /** Coordinator: the decision to commit. */
    record CommitDecided(String migrationId, int attempt) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(3, this);
        }
    }

    /**
     * Coordinator: the decision to roll back.
     *
     * @param byOperator decided although an original is gone
     */
    record RollBackDecided(String migrationId, int attempt, String reason, boolean byOperator)
            implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(4, this).text(reason).flag(byOperator);
        }
    }

    /** Coordinator: an original is gone before all were prepared; an operator must decide. */
    record Broken(String migrationId, int attempt, String reason) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(5, this).text(reason);
        }
    }

    /**
     * Participant: the vote. One without participants is no record: {@link IllegalArgumentException}.
     *
     * @param source the coordinator's address, which the fence command is given
     * @param copies the restored ranks of this participant
     * @param heardNs time of this boot at which the source was last heard
     * @param clock whose time that is
     */
    record PreparedHere(
            String migrationId,
            int attempt,
            List<String> participants,
            String self,
            String source,
            List<PlannedRank> copies,
            long heardNs,
            RecordedClock clock)
            implements TransactionRecord {
        public PreparedHere {
            participants = someone(participants);
            copies = List.copyOf(copies);
        }

        /** By the clock of this release. */
        public PreparedHere(
                String migrationId,
                int attempt,
                List<String> participants,
                String self,
                String source,
                List<PlannedRank> copies,
                long heardNs) {
            this(migrationId, attempt, participants, self, source, copies, heardNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 19 : 6, this)
                    .texts(participants)
                    .text(self)
                    .text(source)
                    .ranks(copies)
                    .number(heardNs);
        }
    }

    /** Participant: the source was lost at this time of this boot. Not synced. */
    record LostSource(String migrationId, int attempt, long atNs, RecordedClock clock) implements TransactionRecord {
        /** By the clock of this release. */
        public LostSource(String migrationId, int attempt, long atNs) {
            this(migrationId, attempt, atNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 20 : 7, this).number(atNs);
        }
    }

    /** Participant: until this time of this boot it does not roll back on the source's word. */
    record Promised(String migrationId, int attempt, long untilNs, RecordedClock clock) implements TransactionRecord {
        /** By the clock of this release. */
        public Promised(String migrationId, int attempt, long untilNs) {
            this(migrationId, attempt, untilNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 21 : 8, this).number(untilNs);
        }
    }

    /** Participant: its fence command may be running until this time of this boot. */
    record Fencing(String migrationId, int attempt, long untilNs, RecordedClock clock) implements TransactionRecord {
        /** By the clock of this release. */
        public Fencing(String migrationId, int attempt, long untilNs) {
            this(migrationId, attempt, untilNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 22 : 9, this).number(untilNs);
        }
    }

    /** Participant: the source is off, and from now on the first participant's word decides towards {@code aim}. */
    record TakenOver(String migrationId, int attempt, FinalOutcome aim) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(10, this).outcome(aim);
        }
    }

    /** Participant: its copies may run. {@code decidedHere}: by its own decision after a take-over. */
    record CommittedHere(String migrationId, int attempt, boolean decidedHere) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(11, this).flag(decidedHere);
        }
    }

    /** Participant: its copies are ended, and it will never have any of this attempt. */
    record RolledBackHere(String migrationId, int attempt, String reason, boolean decidedHere)
            implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(12, this).text(reason).flag(decidedHere);
        }
    }

    /** Either: nothing is left to do. */
    record Done(String migrationId, int attempt, FinalOutcome outcome, String reason) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(13, this).outcome(outcome).text(reason);
        }
    }

    /** History: who asked for it, for which job. {@code what} is free text, as the plan's options. */
    record Asked(String migrationId, int attempt, String who, String job, String what) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(14, this).text(who).text(job).text(what);
        }
    }

    /**
     * Participant: what a reconnect hook is told, kept with the vote.
     *
     * @param job its name
     * @param uid the user that the hook runs as
     * @param moving the ranks that move, with a space between
     * @param places "rank node" for every rank of the job, as it is to be
     */
    record JobPlacement(
            String migrationId, int attempt, String job, int uid, int gid, String moving, List<String> places)
            implements TransactionRecord {
        public JobPlacement {
            places = List.copyOf(places);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(16, this).text(job).number(uid).number(gid).text(moving).texts(places);
        }
    }

    /**
     * History: a step has ended.
     *
     * @param step as checkpoint, transfer, restart, commit
     * @param rank the rank, or -1 for all
     * @param peer the other side's name, or empty
     */
    record StepTimed(
            String migrationId,
            int attempt,
            String step,
            int rank,
            String peer,
            long startEpochMs,
            long durationNs,
            long bytes)
            implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(15, this)
                    .text(step)
                    .number(rank)
                    .text(peer)
                    .number(startEpochMs)
                    .number(durationNs)
                    .number(bytes);
        }
    }

    /**
     * Either: the processes that the job itself had stopped before it was held, originals or copies, which are never
     * continued. The last one counts; where there is none, there are none. The source writes it before it does anything
     * to the job, a participant with its vote.
     *
     * @param ranks those ranks of which some were stopped, each with those processes alone
     */
    record JobStopped(String migrationId, int attempt, List<PlannedRank> ranks) implements TransactionRecord {
        public JobStopped {
            ranks = List.copyOf(ranks);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(18, this).ranks(ranks);
        }

        /** Those of a rank by the last such record of an attempt, or of all where {@code attempt} is 0. */
        public static List<ProcessIdentity> of(List<TransactionRecord> records, int attempt, int rank) {
            List<ProcessIdentity> stopped = List.of();
            for (TransactionRecord record : records) {
                if (record instanceof JobStopped last && (attempt == 0 || last.attempt() == attempt)) {
                    stopped = last.ranks().stream()
                            .filter(one -> one.rank() == rank)
                            .flatMap(one -> one.processes().stream())
                            .toList();
                }
            }
            return stopped;
        }
    }

    /**
     * Either: what who speaks of the migration must show. The source writes it before anything else, a participant with
     * its vote.
     */
    record Secret(String migrationId, int attempt, MigrationSecret secret) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(23, this).number(secret.high()).number(secret.low());
        }

        /** Returns the secret of the migration of these records; NONE where an earlier release has begun it. */
        public static MigrationSecret of(List<TransactionRecord> records) {
            return last(records, Secret.class).map(Secret::secret).orElse(MigrationSecret.NONE);
        }
    }

    /**
     * Coordinator: the cgroups that are about to be frozen around the originals. The last one counts; a service that is
     * restarted thaws them.
     *
     * @param cgroups their directories
     */
    record Frozen(String migrationId, int attempt, List<String> cgroups) implements TransactionRecord {
        public Frozen {
            cgroups = List.copyOf(cgroups);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(24, this).texts(cgroups);
        }

        /** Those by the last such record; none where there is none. */
        public static List<String> of(List<TransactionRecord> records) {
            return last(records, Frozen.class).map(Frozen::cgroups).orElse(List.of());
        }
    }

    /** History: how the job's memory travels in this attempt, streamed or as images, and why. */
    record PagesChosen(String migrationId, int attempt, String sentence) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(25, this).text(sentence);
        }
    }

    /** History: what became of the copy of the images that was wanted, in a sentence. */
    record CopyEnded(String migrationId, int attempt, boolean kept, String sentence) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(17, this).flag(kept).text(sentence);
        }
    }
}
