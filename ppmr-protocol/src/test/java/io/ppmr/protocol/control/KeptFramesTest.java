package io.ppmr.protocol.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageParts;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.protocol.data.ValueFrame;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Reads the frames of every version that this release knows, whose bytes are kept in a file for each version: what the
 * version added. The files never change. Release 0.3.0 wrote versions 9 and 10.
 */
class KeptFramesTest {
    private final UnsafeBuffer written = new UnsafeBuffer(new byte[Frame.MAX_FRAME_BYTES]);

    /** A line of a file: the name of the frame's type, or of its message, and its bytes. */
    private record KeptFrame(String name, String hex) {}

    private static List<KeptFrame> kept(ProtocolVersion version) throws IOException {
        String name = "/frames-" + version.number() + ".hex";
        try (InputStream in = KeptFramesTest.class.getResourceAsStream(name)) {
            return new String(in.readAllBytes(), StandardCharsets.US_ASCII)
                    .lines()
                    .map(line -> line.split(" "))
                    .map(words -> new KeptFrame(words[0], words[1]))
                    .toList();
        }
    }

    @ParameterizedTest
    @EnumSource
    void shouldReadTheKeptFramesOfAVersionAndWriteThemEqually(ProtocolVersion version) throws Exception {
        for (KeptFrame frame : kept(version)) {
            UnsafeBuffer bytes = new UnsafeBuffer(HexFormat.of().parseHex(frame.hex()));
            FrameType type = Frame.requireValid(bytes, 0);
            if (type == FrameType.MESSAGE) {
                Message message = ControlMessage.read(bytes, 0);
                assertEquals(frame.name(), message.getClass().getSimpleName());
                assertEquals(version, message.since(), frame.name());
                byte[] again = new byte[bytes.capacity()];
                message.frame(Frame.attempt(bytes, 0)).getBytes(0, again);
                assertEquals(frame.hex(), HexFormat.of().formatHex(again), frame.name());
            } else {
                assertEquals(frame.name(), type.name());
                byte[] again = new byte[encodedAgain(type, bytes)];
                written.getBytes(0, again);
                assertEquals(frame.hex(), HexFormat.of().formatHex(again), frame.name());
            }
        }
    }

    /** Writes the fields that a reader finds. Returns the length. */
    private int encodedAgain(FrameType type, UnsafeBuffer in) {
        int attempt = Frame.attempt(in, 0);
        int file = Frame.file(in, 0);
        return switch (type) {
            case ADVERTISE -> {
                AdvertiseFrame one = new AdvertiseFrame().wrap(in, 0);
                yield AdvertiseFrame.encode(
                        written,
                        0,
                        attempt,
                        file,
                        one.offset(),
                        one.order(),
                        one.address(),
                        one.key(),
                        one.lengthBytes(),
                        one.crc32c(),
                        one.sourceChunk(),
                        one.slot());
            }
            case CHUNK -> {
                ChunkFrame one = new ChunkFrame().wrap(in, 0);
                int length = ChunkFrame.encode(
                        written,
                        0,
                        attempt,
                        file,
                        one.offset(),
                        one.lengthBytes(),
                        one.crc32c(),
                        one.sourceChunk(),
                        one.slot(),
                        one.flags());
                ChunkFrame.number(written, 0, one.order());
                yield length;
            }
            case CREDIT_REQUEST -> {
                CreditRequestFrame one = new CreditRequestFrame().wrap(in, 0);
                yield CreditRequestFrame.encode(written, 0, attempt, file, one.window(), one.count(), one.flags());
            }
            case CREDIT, CREDIT_RETURN, CREDIT_DENIAL -> {
                CreditFrame one = new CreditFrame().wrap(in, 0);
                yield CreditFrame.encode(written, 0, type, attempt, file, one.window(), one.slot());
            }
            case FILE_PREFIX -> {
                FilePrefixFrame one = new FilePrefixFrame().wrap(in, 0);
                int length = FilePrefixFrame.encode(written, 0, attempt, file, one.position(), one.dataLengthBytes());
                assertTrue(one.isConsistent());
                written.putBytes(FilePrefixFrame.DATA_OFFSET, in, FilePrefixFrame.DATA_OFFSET, one.dataLengthBytes());
                yield length;
            }
            case RELEASE -> {
                ReleaseFrame one = new ReleaseFrame().wrap(in, 0);
                yield ReleaseFrame.encode(written, 0, attempt, file, one.order(), one.sourceChunk());
            }
            case TRUNCATE, SYNC, SYNCED, END_OF_FILE, END_OF_IMAGE, HEARTBEAT, RAIL, RESUME ->
                ValueFrame.encode(
                        written,
                        0,
                        type,
                        attempt,
                        file,
                        new ValueFrame().wrap(in, 0).value());
            case MESSAGE, MESSAGE_PART, MESSAGE_END -> throw new AssertionError(type);
        };
    }

    /** The frames of a long message have the same header as others, and bytes of a message. */
    @Test
    void shouldKeepEveryTypeOfFrameAndEveryMessage() throws IOException {
        Set<String> names = new HashSet<>();
        for (ProtocolVersion version : ProtocolVersion.values()) {
            kept(version).forEach(frame -> names.add(frame.name()));
        }
        Set<String> expected = Stream.concat(
                        Stream.of(FrameType.values())
                                .filter(type -> type != FrameType.MESSAGE && !MessageParts.isPart(type))
                                .map(FrameType::name),
                        ControlMessageTest.kinds().stream().map(Class::getSimpleName))
                .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(expected, new TreeSet<>(names));
    }
}
