package io.ppmr.protocol.control;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageFields;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
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
     * A step of the commit protocol. It may be the first message of a connection, so it contains the migration's name.
     * docs/internals/transaction.md lists the answers to each. The frame contains the attempt. Each message may arrive
     * twice, late, or never.
     */
    sealed interface OfTransaction extends ControlMessage {
        /** The migration's name. */
        String migrationId();
    }

    /** S to T, the first message of a migration or of a check: the facts of the source and of the job. */
    record Introduce(NodeFacts node, JobFacts job) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 32);
            FactsCodec.write(out, node);
            FactsCodec.write(out, job);
        }
    }

    /**
     * T to S, the answer: the facts of the target and the findings of its comparison. A FAIL becomes a Refuse to Begin.
     * {@code way} is the way in which the target accepts the job's memory: the offered one, or one before it.
     */
    record Introduced(NodeFacts node, MemoryWay way, List<Finding> findings) implements ControlMessage {
        public Introduced {
            findings = List.copyOf(findings);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 33);
            FactsCodec.write(out, node);
            out.writeUnsignedByte(way.code());
            FactsCodec.write(out, findings);
        }
    }

    /**
     * From a service that moves a pod to another node's service, first on a connection: the migration took the pod's
     * address away. The state ends after the lease unless this message is repeated; a lease of 0 means that the address
     * is back.
     *
     * @param token while the address is away the digest of its {@link ReturnToken}; the token itself when it is back
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

    /** The answer, unless it is a Refuse: the number of peer pods on that node. */
    record AddressAwayAck(int pods) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 35);
            out.writeInt(pods);
        }
    }

    /**
     * S to T, after Introduced and once more while the ranks are held: requests the state of files as the job's user
     * sees them. The source sends one request at a time. {@code kind} is a letter that {@code ppmr-look} defines. A
     * path has a character from 0 to 255 for each byte.
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
     * T to S, the answer: a line for each path, or no lines and a failure. {@code kernel} is the boot_id of the node:
     * nodes with one kernel show equal numbers for one object. {@code ignored} is true if the target's configuration
     * reports different files only as warnings.
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
     * S to T: requests the migration before anything was done to the originals. {@code participants} are the
     * addresses of all targets in their order, and {@code participantIndex} is the receiver's index in that list. Every
     * attempt at a migration has the same {@code secret}. {@code bootId} is that of the source's node, or empty.
     */
    record Begin(
            String migrationId,
            MigrationSecret secret,
            String job,
            String checkpointer,
            int uid,
            int gid,
            List<Integer> ranks,
            TransferPlan transfer,
            List<String> participants,
            int participantIndex,
            Placement placement,
            String bootId)
            implements ControlMessage {
        /**
         * The plan of a transfer of bytes.
         *
         * @param chunkBytes the length of a chunk
         * @param dataConnections how many data connections the source opens
         * @param transports the transports that the source can use, as a sum: 1 TCP, 2 RDMA Read, 4 RDMA Write, 8 rails
         * @param carriedBytes the bytes of the files that travel with the job
         */
        public record TransferPlan(int chunkBytes, int dataConnections, int transports, long carriedBytes) {
            void write(Bytes<?> out) {
                out.writeInt(chunkBytes)
                        .writeInt(dataConnections)
                        .writeInt(transports)
                        .writeLong(carriedBytes);
            }

            static TransferPlan read(Bytes<?> in) {
                return new TransferPlan(in.readInt(), in.readInt(), in.readInt(), in.readLong());
            }
        }

        /**
         * The nodes of the job's ranks.
         *
         * @param moving all ranks that move
         * @param rankNodes "rank node" for every rank of the job after the migration
         */
        public record Placement(List<Integer> moving, List<String> rankNodes) {
            public Placement {
                moving = List.copyOf(moving);
                rankNodes = List.copyOf(rankNodes);
            }

            void write(Bytes<?> out) {
                MessageFields.writeInts(out, moving);
                MessageFields.writeTexts(out, rankNodes);
            }

            static Placement read(Bytes<?> in) throws ProtocolException {
                return new Placement(MessageFields.ints(in), MessageFields.texts(in));
            }
        }

        public Begin {
            ranks = List.copyOf(ranks);
            participants = List.copyOf(participants);
        }

        @Override
        public ProtocolVersion since() {
            return bootId.isEmpty() ? ProtocolVersion.V9 : ProtocolVersion.V10;
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 1);
            MessageFields.writeText(out, migrationId);
            secret.write(out);
            MessageFields.writeTexts(out, job, checkpointer);
            out.writeInt(uid).writeInt(gid);
            MessageFields.writeInts(out, ranks);
            transfer.write(out);
            MessageFields.writeTexts(out, participants);
            out.writeInt(participantIndex);
            placement.write(out);
            MessageFields.writeAddedText(out, bootId);
        }
    }

    /**
     * T to S: accepts. The target starts the restores next. {@code clockNs} is the target's monotonic clock now. After
     * its vote the target may fence the source until {@code fenceWindowMs} after it lost the source; 0 means never. It
     * counts a link as lost after {@code silenceLimitMs}. {@code bootId} is that of the target's node, or empty.
     */
    record Accept(long clockNs, long fenceWindowMs, long silenceLimitMs, String bootId) implements ControlMessage {
        @Override
        public ProtocolVersion since() {
            return bootId.isEmpty() ? ProtocolVersion.V9 : ProtocolVersion.V10;
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 2);
            out.writeLong(clockNs).writeLong(fenceWindowMs).writeLong(silenceLimitMs);
            MessageFields.writeAddedText(out, bootId);
        }
    }

    /** T to S: refuses, with the reason. */
    record Refuse(String reason) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 3);
            MessageFields.writeText(out, reason);
        }
    }

    /**
     * S to T, before the rank's image is complete, if the job itself had stopped some of its processes: their copies
     * stay stopped. {@code pids} are the PIDs of all processes of the rank in its own PID namespace, each parent before
     * its children. {@code parents} has for each process the index of its parent in that list, or -1. {@code stopped}
     * are the indexes of the stopped processes.
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
     * S to T, before END_OF_IMAGE of the rank: the rights and open files of the originals, one per line. A record that
     * does not fit one frame continues in further ones. {@code last} marks the last one.
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
     * S to T, when a rank is held and before END_OF_IMAGE: the rank's own files that travel with it. Their content
     * follows as the CARRIED file of the rank. A path has a character from 0 to 255 for each byte. {@code replacing}
     * are the indexes in that list of paths that may replace a file of the job's user.
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

    /** T to S: all files of a rank's CarriedFiles are at their paths, and on the disk. */
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

    /** T to S: every rank is restored and held, and every byte and CRC was checked. */
    record Prepared(TransferReport report) implements ControlMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 9);
            report.write(out);
        }
    }

    /** S to T: the originals no longer exist, so continue the restored ranks. */
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

    /** S to T: roll back the migration and kill the restored ranks. */
    record RollBack(String migrationId, String reason) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 12);
            MessageFields.writeTexts(out, migrationId, reason);
        }
    }

    /** T to S: the migration was rolled back and all its resources were removed, with the reason. */
    record RolledBack(String migrationId, String reason) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 13);
            MessageFields.writeTexts(out, migrationId, reason);
        }
    }

    /** S to T, after all votes: requests a proof that the restored ranks are still held. */
    record Confirm(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 16);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** T to S: the ranks are held, which was checked just now. */
    record StillHeld(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 17);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** T to S: the ranks are not held, with the reason. */
    record NotHeld(String migrationId, String reason) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 18);
            MessageFields.writeTexts(out, migrationId, reason);
        }
    }

    /**
     * First on a further connection about a migration: identifies the sender of all later messages, a target or, with
     * an empty name, the source.
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
     * From a target to another one: the source does not respond; requests the state of the other target. With a {@code
     * round} other than 0, the first target also requests a promise not to roll back at the source's request for {@code
     * promiseMs}.
     */
    record StatusQuery(String migrationId, long round, long promiseMs) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 21);
            MessageFields.writeText(out, migrationId);
            out.writeLong(round).writeLong(promiseMs);
        }
    }

    /** First target to another one: the source is proved to be off. After the answer, the first target decides. */
    record TakeOver(String migrationId) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 19);
            MessageFields.writeText(out, migrationId);
        }
    }

    /** The answer to StatusQuery and TakeOver. {@code round} is the query's, and 0 for a take-over. */
    record ParticipantStatus(String migrationId, VoterState state, long round) implements OfTransaction {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 20);
            MessageFields.writeText(out, migrationId);
            out.writeByte((byte) state.code()).writeLong(round);
        }
    }

    /** Reads the message of a MESSAGE frame whose header is valid, of the control plane or the data plane. */
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
                        MessageFields.ints(in),
                        Begin.TransferPlan.read(in),
                        MessageFields.texts(in),
                        in.readInt(),
                        Begin.Placement.read(in),
                        MessageFields.addedText(in)));
            case 2 ->
                PlanCheck.requireValid(
                        new Accept(in.readLong(), in.readLong(), in.readLong(), MessageFields.addedText(in)));
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
            case 33 ->
                new Introduced(
                        FactsCodec.readNode(in), MemoryWay.of(in.readUnsignedByte()), FactsCodec.readFindings(in));
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
