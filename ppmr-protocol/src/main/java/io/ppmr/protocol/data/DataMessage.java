package io.ppmr.protocol.data;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import net.openhft.chronicle.bytes.Bytes;

/** The messages of the data plane: names of files, choice of the transport, progress. S is the source, T the target. */
public sealed interface DataMessage extends Message {

    /** A change of the names in an image directory. */
    sealed interface NameChange extends DataMessage {}

    /** S to T: a file, a directory or a symbolic link was created. {@code file} is 0 for the latter two. */
    record Created(int file, NodeKind kind, String path, int mode, int uid, int gid, String linkTarget)
            implements NameChange {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 4).writeInt(file).writeByte((byte) kind.code());
            MessageFields.writeText(out, path);
            out.writeInt(mode).writeInt(uid).writeInt(gid);
            MessageFields.writeText(out, linkTarget);
        }
    }

    /** S to T: a name changed. A file that was at {@code to} no longer exists. */
    record Renamed(String from, String to) implements NameChange {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 5);
            MessageFields.writeTexts(out, from, to);
        }
    }

    /** S to T: a name was removed. */
    record Removed(String path) implements NameChange {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 6);
            MessageFields.writeText(out, path);
        }
    }

    /** S to T: mode, owner or modification time of a file changed. */
    record Changed(String path, int mode, int uid, int gid, long modifiedEpochNs) implements NameChange {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 7);
            MessageFields.writeText(out, path);
            out.writeInt(mode).writeInt(uid).writeInt(gid).writeLong(modifiedEpochNs);
        }
    }

    /** In both directions: the migration failed for this reason. */
    record TransferFailure(String reason) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 14);
            MessageFields.writeText(out, reason);
        }
    }

    /** T to S, a few times a second: the progress of the target. */
    record Progress(long arrivedBytes, long readBytes, long stagedBytes) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 15)
                    .writeLong(arrivedBytes)
                    .writeLong(readBytes)
                    .writeLong(stagedBytes);
        }
    }

    /**
     * T to S, if the source could use RDMA: the chosen transport and the reason. With a mode, the source connects by
     * RDMA to this port of the control connection's address. Without a mode it opens data connections.
     */
    record Offer(Optional<RdmaMode> direct, int port, String reason) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 40)
                    .writeByte((byte) direct.map(RdmaMode::code).orElse(0).intValue());
            out.writeInt(port);
            MessageFields.writeText(out, reason);
        }
    }

    /**
     * S to T: the connection that the source opened, and the reason: RDMA as offered, or data connections if {@code
     * direct} is false. At the address are 32 bytes with the given SHA-256 digest, which the target reads over the
     * connection to identify the peer.
     */
    record Attached(boolean direct, long address, long key, String digest, String reason) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 41);
            MessageFields.writeFlag(out, direct);
            out.writeLong(address).writeLong(key);
            MessageFields.writeTexts(out, digest, reason);
        }
    }

    /**
     * T to S, after {@link Attached} if the source writes: the address of the session's pool, and of the ring for the
     * chunks' frames. The ring has {@code ringEntries} entries. The keys are valid for these regions and this session
     * only.
     */
    record Writable(long address, long key, long ringAddress, long ringKey, int ringEntries) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 42).writeLong(address).writeLong(key);
            out.writeLong(ringAddress).writeLong(ringKey).writeInt(ringEntries);
        }
    }

    /**
     * A network over which chunks can reach a target.
     *
     * @param name the network's name, which both nodes' configurations contain
     * @param host the target's address in that network
     * @param direct true for RDMA Write, false for data connections
     */
    record OfferedRail(String name, String host, int port, boolean direct) {}

    /** T to S, if the source has rails: the rails of the target. The index in the list is the rail's number. */
    record OfferedRails(List<OfferedRail> rails) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 43);
            MessageFields.writeCount(out, rails.size());
            for (OfferedRail rail : rails) {
                MessageFields.writeTexts(out, rail.name(), rail.host());
                out.writeInt(rail.port());
                MessageFields.writeFlag(out, rail.direct());
            }
        }

        private static OfferedRails read(Bytes<?> in) throws ProtocolException {
            int count = MessageFields.count(in, 2 + Integer.BYTES + 1);
            List<OfferedRail> rails = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                rails.add(new OfferedRail(
                        MessageFields.text(in), MessageFields.text(in), in.readInt(), MessageFields.flag(in)));
            }
            return new OfferedRails(rails);
        }
    }

    /**
     * S to T: the source sends nothing more on this rail. {@code generation} counts the source's connections of the
     * rail, so that a late connection of an earlier generation is recognized.
     */
    record EndRail(int rail, int generation) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 44).writeInt(rail).writeInt(generation);
        }
    }

    /**
     * T to S, the answer: the target no longer reads from that rail. {@code arrived} is the number of chunks that
     * arrived completely on each connection of the rail, by the connections' numbers. Connections beyond the list
     * delivered none.
     */
    record RailEnded(int rail, int generation, List<Long> arrived) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 45).writeInt(rail).writeInt(generation);
            MessageFields.writeCount(out, arrived.size());
            arrived.forEach(out::writeLong);
        }

        private static RailEnded read(Bytes<?> in) throws ProtocolException {
            int rail = in.readInt();
            int generation = in.readInt();
            int count = MessageFields.count(in, Long.BYTES);
            List<Long> arrived = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                arrived.add(in.readLong());
            }
            return new RailEnded(rail, generation, arrived);
        }
    }

    /** Reads the fields of the message with a code; null if the code is not one of the data plane. */
    static DataMessage readFields(int code, Bytes<?> in) throws ProtocolException {
        return switch (code) {
            case 4 ->
                new Created(
                        in.readInt(),
                        NodeKind.of(in.readUnsignedByte()),
                        MessageFields.text(in),
                        in.readInt(),
                        in.readInt(),
                        in.readInt(),
                        MessageFields.text(in));
            case 5 -> new Renamed(MessageFields.text(in), MessageFields.text(in));
            case 6 -> new Removed(MessageFields.text(in));
            case 7 -> new Changed(MessageFields.text(in), in.readInt(), in.readInt(), in.readInt(), in.readLong());
            case 14 -> new TransferFailure(MessageFields.text(in));
            case 15 -> new Progress(in.readLong(), in.readLong(), in.readLong());
            case 40 -> new Offer(direct(in.readUnsignedByte()), in.readInt(), MessageFields.text(in));
            case 41 ->
                new Attached(
                        MessageFields.flag(in),
                        in.readLong(),
                        in.readLong(),
                        MessageFields.text(in),
                        MessageFields.text(in));
            case 42 -> new Writable(in.readLong(), in.readLong(), in.readLong(), in.readLong(), in.readInt());
            case 43 -> OfferedRails.read(in);
            case 44 -> new EndRail(in.readInt(), in.readInt());
            case 45 -> RailEnded.read(in);
            default -> null;
        };
    }

    private static Optional<RdmaMode> direct(int code) throws ProtocolException {
        return code == 0 ? Optional.empty() : Optional.of(RdmaMode.of(code));
    }
}
