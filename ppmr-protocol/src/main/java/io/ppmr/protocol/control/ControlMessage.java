package io.ppmr.protocol.control;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageFields;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.TransferReport;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;
import org.agrona.DirectBuffer;

/**
 * The messages of the control plane: the steps of a migration, between services and between targets. S is the source, T
 * the target.
 */
public sealed interface ControlMessage extends Message {
    /**
     * A step of the commit protocol that may come first on a connection, so it names its migration;
     * docs/internals/transaction.md says who answers what to it. The attempt is the frame's. All may come twice, late,
     * or never.
     */
    sealed interface OfTransaction extends ControlMessage {
        /** The migration's name. */
        String migrationId();
    }

    /** S to T, the first message of a migration or of a check: what the source is, and what would come. */
    record Introduce(NodeFacts node, JobFacts job) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 32);
            FactsCodec.write(out, node);
            FactsCodec.write(out, job);
        }
    }

    /**
     * T to S, the answer: what the target is, and what it finds when it compares; a FAIL is a Refuse to Begin. {@code
     * streams} says that it would have the job's memory streamed, as the source has offered.
     */
    record Introduced(NodeFacts node, boolean streams, List<Finding> findings) implements ControlMessage {
        public Introduced {
            findings = List.copyOf(findings);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 33);
            FactsCodec.write(out, node);
            MessageFields.writeFlag(out, streams);
            FactsCodec.write(out, findings);
        }
    }

    /**
     * The service that moves a pod, to that of another node, first on a connection: the pod's address is away, by a
     * migration, for that time unless it says so again; or, with 0, it is back.
     *
     * @param token while the address is away the lock of its {@link ReturnToken}; the token itself when it is back
     */
    record AddressAway(String address, String migrationId, long leaseMs, String token) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 34);
            MessageFields.writeTexts(out, address, migrationId);
            out.writeLong(leaseMs);
            MessageFields.writeTexts(out, token);
        }
    }

    /** The answer, where it is no Refuse: how many pods are peers there. */
    record AddressAwayAck(int pods) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 35);
            out.writeInt(pods);
        }
    }

    /**
     * S to T, after Introduced and once more while the ranks are held: what does the job's user see at these paths? One
     * question at a time; {@code kind} is the letter by which {@code ppmr-look} knows it. A path has a character from 0
     * to 255 for each byte.
     */
    record InspectFiles(int uid, int gid, int kind, List<String> paths) implements ControlMessage {
        public InspectFiles {
            paths = List.copyOf(paths);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 36);
            out.writeInt(uid).writeInt(gid).writeInt(kind);
            MessageFields.writeTexts(out, paths);
        }
    }

    /**
     * T to S, the answer: a line for each path, or none and why. {@code kernel} is its node's boot_id: nodes that share
     * one show one object's numbers alike. {@code ignored} says that its configuration takes other files for warnings.
     */
    record FilesInspected(String kernel, boolean ignored, List<String> lines, String failure)
            implements ControlMessage {
        public FilesInspected {
            lines = List.copyOf(lines);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 37);
            MessageFields.writeText(out, kernel);
            MessageFields.writeFlag(out, ignored);
            MessageFields.writeTexts(out, lines);
            MessageFields.writeText(out, failure);
        }
    }

    /**
     * S to T: may this migration come to you? Nothing has been done to the originals yet. {@code moving} are all ranks
     * that move, {@code places} says "rank node" for every rank of the job, as it is to be. {@code participants} are
     * the
     * addresses of all targets that take part, in their order; {@code place} is the receiver's among them. {@code
     * transports} says how its bytes may travel, 1 by TCP, 2 by RDMA, 3 either way. Every attempt at a migration has
     * the same {@code secret}. {@code carriedBytes} are those of files that travel with the job.
     */
    record Begin(
            String migrationId,
            MigrationSecret secret,
            String job,
            String checkpointer,
            int chunkBytes,
            int dataConnections,
            int uid,
            int gid,
            List<Integer> ranks,
            List<String> participants,
            int place,
            int transports,
            List<Integer> moving,
            List<String> places,
            long carriedBytes)
            implements ControlMessage {
        public Begin {
            ranks = List.copyOf(ranks);
            participants = List.copyOf(participants);
            moving = List.copyOf(moving);
            places = List.copyOf(places);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 1);
            MessageFields.writeText(out, migrationId);
            secret.write(out);
            MessageFields.writeTexts(out, job, checkpointer);
            out.writeInt(chunkBytes).writeInt(dataConnections).writeInt(uid).writeInt(gid);
            MessageFields.writeInts(out, ranks);
            MessageFields.writeTexts(out, participants);
            out.writeInt(place).writeInt(transports);
            MessageFields.writeInts(out, moving);
            MessageFields.writeTexts(out, places);
            out.writeLong(carriedBytes);
        }
    }

    /**
     * T to S: yes; the restarts are started next. {@code clockNs} is the target's monotonic clock at this moment. Once
     * it has voted it may fence the source until {@code fenceWindowMs} after it lost it, 0 if it never does; it takes a
     * link for lost after {@code silenceLimitMs}.
     */
    record Accept(long clockNs, long fenceWindowMs, long silenceLimitMs) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 2);
            out.writeLong(clockNs).writeLong(fenceWindowMs).writeLong(silenceLimitMs);
        }
    }

    /** T to S: no, and why. */
    record Refuse(String reason) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 3);
            MessageFields.writeText(out, reason);
        }
    }

    /**
     * S to T, before the rank's image is whole, if the job itself had stopped some of its processes: their copies are
     * never continued. {@code pids} are those of all its processes as they see themselves, the root's first, a parent's
     * before its children's; {@code parents} has for each the place of its parent in that list, -1 for none; {@code
     * stopped} are the places of those that were stopped.
     */
    record StoppedByJob(int rank, List<Integer> pids, List<Integer> parents, List<Integer> stopped)
            implements ControlMessage {
        public StoppedByJob {
            pids = List.copyOf(pids);
            parents = List.copyOf(parents);
            stopped = List.copyOf(stopped);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 23);
            out.writeInt(rank);
            MessageFields.writeInts(out, pids);
            MessageFields.writeInts(out, parents);
            MessageFields.writeInts(out, stopped);
        }
    }

    /**
     * S to T, before END_OF_IMAGE of the rank: what its originals may do and have open, line by line. A record that
     * does not fit one frame is continued by further ones; {@code last} ends it.
     */
    record OriginalRights(int rank, boolean last, List<String> lines) implements ControlMessage {
        public OriginalRights {
            lines = List.copyOf(lines);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 24);
            out.writeInt(rank);
            MessageFields.writeFlag(out, last);
            MessageFields.writeTexts(out, lines);
        }
    }

    /**
     * S to T, when a rank is held and before END_OF_IMAGE: its own files that travel with it. Their content follows as
     * the CARRIED file of the rank. A path has a character from 0 to 255 for each byte; {@code replacing} are the
     * places in that list of those that may take the place of a file of the job's user.
     */
    record CarriedFiles(int rank, List<String> paths, List<Integer> replacing) implements ControlMessage {
        public CarriedFiles {
            paths = List.copyOf(paths);
            replacing = List.copyOf(replacing);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 38);
            out.writeInt(rank);
            MessageFields.writeTexts(out, paths);
            MessageFields.writeInts(out, replacing);
        }
    }

    /** T to S: all files of a rank's Carry are at their places, and on the disk. */
    record FilesPlaced(int rank) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 39);
            out.writeInt(rank);
        }
    }

    /** T to S: a rank is restored and held. */
    record Restored(int rank, List<Integer> pids) implements ControlMessage {
        public Restored {
            pids = List.copyOf(pids);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 8);
            out.writeInt(rank);
            MessageFields.writeInts(out, pids);
        }
    }

    /** T to S: every rank is restored and held, every byte and CRC is accounted for. */
    record Prepared(TransferReport report) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 9);
            report.write(out);
        }
    }

    /** S to T: the originals are gone; continue the restored ranks. */
    record Commit(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 10);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** T to S: the restored ranks run. */
    record Committed(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 11);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** S to T: give it up; end what was restored. */
    record RollBack(String migrationId, String reason) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 12);
            MessageFields.writeTexts(out, migrationId, reason);
        }
    }

    /** T to S: nothing of it is left, and why. */
    record RolledBack(String migrationId, String reason) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 13);
            MessageFields.writeTexts(out, migrationId, reason);
        }
    }

    /** S to T, after all votes: are the restored ranks still held? */
    record Confirm(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 16);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** T to S: yes, proved just now. */
    record StillHeld(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 17);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** T to S: no, and why. */
    record NotHeld(String migrationId, String reason) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 18);
            MessageFields.writeTexts(out, migrationId, reason);
        }
    }

    /**
     * First on a further connection about a migration: who is speaking, a target or, with an empty name, the source;
     * everything after it is its word.
     */
    record Participation(String migrationId, String participant, MigrationSecret secret) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 22);
            MessageFields.writeTexts(out, migrationId, participant);
            secret.write(out);
        }
    }

    /**
     * A target to another one: the source does not answer; where do you stand? With a {@code round} other than 0 the
     * first one also asks for a promise: no rollback on the source's word for {@code promiseMs}.
     */
    record StatusQuery(String migrationId, long round, long promiseMs) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 21);
            MessageFields.writeText(out, migrationId);
            out.writeLong(round).writeLong(promiseMs);
        }
    }

    /** First target to another one: the source is proved to be off; from your answer on my word decides. */
    record TakeOver(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 19);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** The answer to both; {@code round} is the question's, 0 for a take-over. */
    record ParticipantStatus(String migrationId, VoterState state, long round) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 20);
            MessageFields.writeText(out, migrationId);
            out.writeByte((byte) state.code()).writeLong(round);
        }
    }

    /** Reads the message of a MESSAGE frame whose header is valid, of this plane or of the data plane. */
    static Message read(DirectBuffer frame, int offset) throws ProtocolException {
        return Message.read(frame, offset, ControlMessage::readFields);
    }

    private static Message readFields(int code, Bytes<?> in) throws ProtocolException {
        return switch (code) {
            case 1 ->
                PlanCheck.requireValid(new Begin(
                        MessageFields.text(in),
                        MigrationSecret.read(in),
                        MessageFields.text(in),
                        MessageFields.text(in),
                        in.readInt(),
                        in.readInt(),
                        in.readInt(),
                        in.readInt(),
                        MessageFields.ints(in),
                        MessageFields.texts(in),
                        in.readInt(),
                        in.readInt(),
                        MessageFields.ints(in),
                        MessageFields.texts(in),
                        in.readLong()));
            case 2 -> PlanCheck.requireValid(new Accept(in.readLong(), in.readLong(), in.readLong()));
            case 3 -> new Refuse(MessageFields.text(in));
            case 8 -> new Restored(in.readInt(), MessageFields.ints(in));
            case 9 -> new Prepared(TransferReport.read(in));
            case 10 -> new Commit(MessageFields.text(in));
            case 11 -> new Committed(MessageFields.text(in));
            case 12 -> new RollBack(MessageFields.text(in), MessageFields.text(in));
            case 13 -> new RolledBack(MessageFields.text(in), MessageFields.text(in));
            case 16 -> new Confirm(MessageFields.text(in));
            case 17 -> new StillHeld(MessageFields.text(in));
            case 18 -> new NotHeld(MessageFields.text(in), MessageFields.text(in));
            case 19 -> new TakeOver(MessageFields.text(in));
            case 20 ->
                new ParticipantStatus(MessageFields.text(in), VoterState.of(in.readUnsignedByte()), in.readLong());
            case 22 ->
                PlanCheck.requireValid(
                        new Participation(MessageFields.text(in), MessageFields.text(in), MigrationSecret.read(in)));
            case 23 ->
                new StoppedByJob(in.readInt(), MessageFields.ints(in), MessageFields.ints(in), MessageFields.ints(in));
            case 24 -> new OriginalRights(in.readInt(), MessageFields.flag(in), MessageFields.texts(in));
            case 21 -> new StatusQuery(MessageFields.text(in), in.readLong(), in.readLong());
            case 32 -> new Introduce(FactsCodec.readNode(in), FactsCodec.readJob(in));
            case 33 -> new Introduced(FactsCodec.readNode(in), MessageFields.flag(in), FactsCodec.readFindings(in));
            case 34 ->
                PlanCheck.requireValid(new AddressAway(
                        MessageFields.text(in), MessageFields.text(in), in.readLong(), MessageFields.text(in)));
            case 35 -> new AddressAwayAck(in.readInt());
            case 36 -> new InspectFiles(in.readInt(), in.readInt(), in.readInt(), MessageFields.texts(in));
            case 37 ->
                new FilesInspected(
                        MessageFields.text(in),
                        MessageFields.flag(in),
                        MessageFields.texts(in),
                        MessageFields.text(in));
            case 38 -> new CarriedFiles(in.readInt(), MessageFields.texts(in), MessageFields.ints(in));
            case 39 -> new FilesPlaced(in.readInt());
            default -> DataMessage.readFields(code, in);
        };
    }
}
