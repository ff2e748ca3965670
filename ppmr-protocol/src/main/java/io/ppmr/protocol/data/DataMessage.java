package io.ppmr.protocol.data;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import net.openhft.chronicle.bytes.Bytes;

/**
 * The messages of the data plane: names of files, how the bytes travel, how far they are. S is the source, T the
 * target.
 */
public sealed interface DataMessage extends Message {

    /** A change of the names in an image directory. */
    sealed interface NameChange extends DataMessage {}

    /** S to T: a file, a directory or a symbolic link was created; {@code file} is 0 for the latter two. */
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

    /** S to T: a name has changed; what was at {@code to} is gone. */
    record Renamed(String from, String to) implements NameChange {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 5);
            MessageFields.writeTexts(out, from, to);
        }
    }

    /** S to T: a name is gone. */
    record Removed(String path) implements NameChange {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 6);
            MessageFields.writeText(out, path);
        }
    }

    /** S to T: mode, owner or modification time of a name have changed. */
    record Changed(String path, int mode, int uid, int gid, long modifiedEpochNs) implements NameChange {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 7);
            MessageFields.writeText(out, path);
            out.writeInt(mode).writeInt(uid).writeInt(gid).writeLong(modifiedEpochNs);
        }
    }

    /** Either way: the migration has failed for this reason. */
    record TransferFailure(String reason) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 14);
            MessageFields.writeText(out, reason);
        }
    }

    /** T to S, a few times a second: how far it is. */
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
     * T to S, where the source could use RDMA: connect so, in this mode to this port of the address that the control
     * connection goes to, or without one by data connections; and why.
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
     * S to T: connected, as offered or, {@code direct} being false, by data connections; and why. At the address lie 32
     * bytes whose SHA-256 is the digest, which the target reads over the connection to identify the peer.
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
     * T to S, after {@link Attached} where the source writes: the pool of this session lies at the address, and a ring
     * with {@code ringEntries} entries for the chunks' frames at the other one. The keys open nothing else, and not for
     * longer.
     */
    record Writable(long address, long key, long ringAddress, long ringKey, int ringEntries) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 42).writeLong(address).writeLong(key);
            out.writeLong(ringAddress).writeLong(ringKey).writeInt(ringEntries);
        }
    }

    /**
     * A network by which chunks can reach a target.
     *
     * @param name of the network, which both nodes' configurations have
     * @param host where the target listens for it, as an address of that network
     * @param direct whether its chunks are written by RDMA; if not they go by data connections
     */
    record OfferedRail(String name, String host, int port, boolean direct) {}

    /** T to S, where the source has rails: these the target has; their places in the list are their numbers. */
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
     * S to T: nothing more is to come by this rail. {@code generation} counts how often the source has connected it, so
     * that a connection of an earlier generation is known, however late it comes.
     */
    record EndRail(int rail, int generation) implements DataMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 44).writeInt(rail).writeInt(generation);
        }
    }

    /**
     * T to S, the answer: no thread reads from that rail; the number of chunks that arrived completely on each of its
     * connections, by the connections' numbers; those that are not named have brought none.
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

    /** Reads the fields of the message that a code names; null if it is none of the data plane's. */
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
