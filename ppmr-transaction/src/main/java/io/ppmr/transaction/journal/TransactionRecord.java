package io.ppmr.transaction.journal;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.MigrationSecret;
import java.util.List;
import java.util.Optional;

/**
 * A record of the journal, one for each step. docs/internals/transaction.md defines which of them are synced. The
 * journal adds the time of each.
 */
public sealed interface TransactionRecord {
    /** Returns the name of the migration. */
    String migrationId();

    /** Returns the number of the attempt, from 1, or 0 if the record is about all attempts. */
    int attempt();

    /**
     * Returns true if the record is a protocol step. Other records are for the services and for {@code ppmr history}.
     */
    default boolean isStep() {
        return !(this instanceof Requested
                || this instanceof StepTimed
                || this instanceof JobPlacement
                || this instanceof CopyEnded
                || this instanceof PagesChosen
                || this instanceof NothingChanged
                || this instanceof JobStopped
                || this instanceof Frozen
                || this instanceof Secret
                || this instanceof PeerNode);
    }

    /** Writes the number of the type and the fields, in the journal's order. */
    void write(RecordCodec.Writer out);

    /** Returns the last of these records of that kind. */
    static <T extends TransactionRecord> Optional<T> last(List<TransactionRecord> records, Class<T> kind) {
        return records.stream().filter(kind::isInstance).map(kind::cast).reduce((earlier, later) -> later);
    }

    private static List<String> requireParticipants(List<String> participants) {
        if (participants.isEmpty()) {
            throw new IllegalArgumentException("a migration needs a participant");
        }
        return List.copyOf(participants);
    }

    /** Returns true if a migration's records can begin with this step. The other steps need a recorded plan or vote. */
    default boolean isBeginning() {
        return this instanceof Begun
                || this instanceof PreparedHere
                || this instanceof CommittedHere
                || this instanceof RolledBackHere
                || this instanceof Done;
    }

    /** Reads the fields of a record; null for an unknown type. */
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
            case 14 -> new Requested(id, attempt, in.text(), in.text(), in.text());
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
            case 26 -> new NothingChanged(id, attempt);
            case 27 -> new PeerNode(id, attempt, in.text(), in.int32(), in.text());
            default -> null;
        };
    }

    /** The clock of a record's time. Neither clock has a meaning after the next boot. */
    enum RecordedClock {
        /** {@code CLOCK_MONOTONIC}, of earlier releases. It stops while the machine is suspended. */
        AWAKE,
        /** {@code CLOCK_BOOTTIME}. It continues while the machine is suspended. */
        BOOT
    }

    /** Coordinator: an attempt begins. Throws {@link IllegalArgumentException} without a participant. */
    record Begun(String migrationId, int attempt, List<String> participants, List<PlannedRank> originals)
            implements TransactionRecord {
        public Begun {
            participants = requireParticipants(participants);
            originals = List.copyOf(originals);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(1, this).texts(participants).ranks(originals);
        }
    }

    /**
     * Coordinator: the image for a participant may become whole, so the participant may vote.
     *
     * @param held the originals in the image, which are held now
     * @param fenceWindowNs the participant's window, from its Accept
     * @param silenceLimitNs the participant's limit
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

    /** Coordinator: an original is gone before all participants were prepared. An operator must decide. */
    record Broken(String migrationId, int attempt, String reason) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(5, this).text(reason);
        }
    }

    /**
     * Participant: the vote. Throws {@link IllegalArgumentException} without participants.
     *
     * @param source coordinator's address, for the fence command
     * @param copies restored ranks of this participant
     * @param lastContactNs time of the source's last message, on this boot's clock
     * @param clock the clock of that time
     */
    record PreparedHere(
            String migrationId,
            int attempt,
            List<String> participants,
            String self,
            String source,
            List<PlannedRank> copies,
            long lastContactNs,
            RecordedClock clock)
            implements TransactionRecord {
        public PreparedHere {
            participants = requireParticipants(participants);
            copies = List.copyOf(copies);
        }

        /** Makes a record with a time of this release's clock. */
        public PreparedHere(
                String migrationId,
                int attempt,
                List<String> participants,
                String self,
                String source,
                List<PlannedRank> copies,
                long lastContactNs) {
            this(migrationId, attempt, participants, self, source, copies, lastContactNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 19 : 6, this)
                    .texts(participants)
                    .text(self)
                    .text(source)
                    .ranks(copies)
                    .number(lastContactNs);
        }
    }

    /** Participant: the source was lost at this time of this boot. Not synced. */
    record LostSource(String migrationId, int attempt, long atNs, RecordedClock clock) implements TransactionRecord {
        /** Makes a record with a time of this release's clock. */
        public LostSource(String migrationId, int attempt, long atNs) {
            this(migrationId, attempt, atNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 20 : 7, this).number(atNs);
        }
    }

    /** Participant: until this time of this boot, the source's messages cannot roll it back. */
    record Promised(String migrationId, int attempt, long untilNs, RecordedClock clock) implements TransactionRecord {
        /** Makes a record with a time of this release's clock. */
        public Promised(String migrationId, int attempt, long untilNs) {
            this(migrationId, attempt, untilNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 21 : 8, this).number(untilNs);
        }
    }

    /** Participant: the fence command may be running until this time of this boot. */
    record Fencing(String migrationId, int attempt, long untilNs, RecordedClock clock) implements TransactionRecord {
        /** Makes a record with a time of this release's clock. */
        public Fencing(String migrationId, int attempt, long untilNs) {
            this(migrationId, attempt, untilNs, RecordedClock.BOOT);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(clock == RecordedClock.BOOT ? 22 : 9, this).number(untilNs);
        }
    }

    /** Participant: the source is off. From now on the first participant decides, towards {@code aim}. */
    record TakenOver(String migrationId, int attempt, FinalOutcome aim) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(10, this).outcome(aim);
        }
    }

    /** Participant: its copies may run. {@code decidedHere} means that it decided after a take-over. */
    record CommittedHere(String migrationId, int attempt, boolean decidedHere) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(11, this).flag(decidedHere);
        }
    }

    /** Participant: its copies are killed, and it will never have copies of this attempt. */
    record RolledBackHere(String migrationId, int attempt, String reason, boolean decidedHere)
            implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(12, this).text(reason).flag(decidedHere);
        }
    }

    /** Either role: no step is left. */
    record Done(String migrationId, int attempt, FinalOutcome outcome, String reason) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(13, this).outcome(outcome).text(reason);
        }
    }

    /** History: the requester and the job. {@code what} is free text, such as the plan's options. */
    record Requested(String migrationId, int attempt, String who, String job, String what)
            implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(14, this).text(who).text(job).text(what);
        }
    }

    /**
     * Participant: the input of a reconnect hook, kept with the vote.
     *
     * @param job its name
     * @param uid user that the hook runs as
     * @param moving the ranks that move, separated by spaces
     * @param places a line "rank node" for every rank of the job, as after the migration
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
     * History: a step ended.
     *
     * @param step such as checkpoint, transfer, restart, commit
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
     * Either role: the originals or copies that the job itself had stopped before it was held. They are never
     * continued. The last record counts. Without a record there are no such processes. The source writes it before it
     * changes the job, a participant with its vote.
     *
     * @param ranks ranks with stopped processes, and only these processes
     */
    record JobStopped(String migrationId, int attempt, List<PlannedRank> ranks) implements TransactionRecord {
        public JobStopped {
            ranks = List.copyOf(ranks);
        }

        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(18, this).ranks(ranks);
        }

        /**
         * Returns the stopped processes of a rank from the last such record of an attempt, or of all if {@code attempt}
         * is 0.
         */
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
     * Either role: the secret that messages about the migration must show. The source writes it before anything else, a
     * participant with its vote.
     */
    record Secret(String migrationId, int attempt, MigrationSecret secret) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(23, this).number(secret.high()).number(secret.low());
        }

        /** Returns the secret of the migration of these records, or NONE if an earlier release began the migration. */
        public static MigrationSecret of(List<TransactionRecord> records) {
            return last(records, Secret.class).map(Secret::secret).orElse(MigrationSecret.NONE);
        }
    }

    /**
     * Coordinator: the cgroups that are about to be frozen around the originals. The last record counts. A service that
     * is restarted thaws them.
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

        /** Returns the cgroups of the last such record, or none. */
        public static List<String> of(List<TransactionRecord> records) {
            return last(records, Frozen.class).map(Frozen::cgroups).orElse(List.of());
        }
    }

    /** History: how the job's memory is sent in this attempt, streamed or as images, and why. */
    record PagesChosen(String migrationId, int attempt, String sentence) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(25, this).text(sentence);
        }
    }

    /** History: the migration ended before anything of the job was changed. */
    record NothingChanged(String migrationId, int attempt) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(26, this);
        }
    }

    /**
     * Either role: the other side's node in this attempt. The source has one for each target that accepted, a
     * participant one with its vote.
     *
     * @param peer the target's address, or the source's host
     * @param protocol the version of the protocol that both sides agreed on
     * @param bootId that node's {@code /proc/sys/kernel/random/boot_id}; empty if the version does not have it
     */
    record PeerNode(String migrationId, int attempt, String peer, int protocol, String bootId)
            implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(27, this).text(peer).number(protocol).text(bootId);
        }
    }

    /** History: the outcome of the requested copy of the images, in a sentence. */
    record CopyEnded(String migrationId, int attempt, boolean kept, String sentence) implements TransactionRecord {
        @Override
        public void write(RecordCodec.Writer out) {
            out.begin(17, this).flag(kept).text(sentence);
        }
    }
}
