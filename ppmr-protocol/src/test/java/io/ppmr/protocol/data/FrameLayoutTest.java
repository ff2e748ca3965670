package io.ppmr.protocol.data;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.EnumSet;
import java.util.HexFormat;
import java.util.Set;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The bytes of every hot frame. They are the wire format: a change here is a new version of the protocol. */
class FrameLayoutTest {
    private static final int AT = 8;
    private static final int ATTEMPT = 0x0A0B0C0D;
    private static final int FILE = 0x01020304;

    private final UnsafeBuffer buffer = new UnsafeBuffer(new byte[AT + Frame.MAX_FRAME_BYTES]);

    @Test
    void shouldWriteAdvertiseAsDrawn() throws ProtocolException {
        int length = AdvertiseFrame.encode(
                buffer,
                AT,
                ATTEMPT,
                FILE,
                0x1122334455667788L,
                0x2122232425262728L,
                0x3132333435363738L,
                0x4142434445464748L,
                0x51525354,
                0x61626364,
                0x71727374,
                0x81828384);
        requireBytes(
                "40000000 09 01 0000 0d0c0b0a 04030201 8877665544332211 2827262524232221 3837363534333231"
                        + " 4847464544434241 54535251 64636261 74737271 84838281",
                length);
        AdvertiseFrame frame = new AdvertiseFrame().wrap(buffer, AT);
        assertEquals(FILE, frame.file());
        assertEquals(0x1122334455667788L, frame.offset());
        assertEquals(0x2122232425262728L, frame.order());
        assertEquals(0x3132333435363738L, frame.address());
        assertEquals(0x4142434445464748L, frame.key());
        assertEquals(0x51525354, frame.lengthBytes());
        assertEquals(0x61626364, frame.crc32c());
        assertEquals(0x71727374, frame.sourceChunk());
        assertEquals(0x81828384, frame.slot());
        assertSame(FrameType.ADVERTISE, Frame.requireValid(buffer, AT));
    }

    @Test
    void shouldWriteChunkAsDrawn() throws ProtocolException {
        buffer.setMemory(0, buffer.capacity(), (byte) 0xFF);
        int length = ChunkFrame.encode(
                buffer, AT, ATTEMPT, FILE, 0x1122334455667788L, 0x51525354, 0x61626364, 0x71727374, 0x81828384, 1);
        String first = "30000000 09 0e 0100 0d0c0b0a 04030201 8877665544332211 ";
        String rest = " 54535251 64636261 74737271 84838281";
        requireBytes(first + "0000000000000000" + rest, length);
        ChunkFrame.number(buffer, AT, 0x2122232425262728L);
        requireBytes(first + "2827262524232221" + rest, length);
        ChunkFrame frame = new ChunkFrame().wrap(buffer, AT);
        assertEquals(ChunkFrame.RELEASE_SOON, frame.flags());
        assertEquals(ATTEMPT, frame.attempt());
        assertEquals(FILE, frame.file());
        assertEquals(0x1122334455667788L, frame.offset());
        assertEquals(0x2122232425262728L, frame.order());
        assertEquals(0x51525354, frame.lengthBytes());
        assertEquals(0x61626364, frame.crc32c());
        assertEquals(0x71727374, frame.sourceChunk());
        assertEquals(0x81828384, frame.slot());
        assertSame(FrameType.CHUNK, Frame.requireValid(buffer, AT));
    }

    @Test
    void shouldWriteCreditRequestAsDrawn() throws ProtocolException {
        int length = CreditRequestFrame.encode(
                buffer, AT, ATTEMPT, FILE, 0x1122334455667788L, 5, CreditRequestFrame.BLOCKED);
        requireBytes("20000000 09 02 0000 0d0c0b0a 04030201 8877665544332211 05000000 01000000", length);
        CreditRequestFrame frame = new CreditRequestFrame().wrap(buffer, AT);
        assertEquals(FILE, frame.file());
        assertEquals(0x1122334455667788L, frame.window());
        assertEquals(5, frame.count());
        assertEquals(CreditRequestFrame.BLOCKED, frame.flags());
        assertSame(FrameType.CREDIT_REQUEST, Frame.requireValid(buffer, AT));
    }

    @ParameterizedTest
    @EnumSource(names = {"CREDIT_RETURN", "CREDIT", "CREDIT_DENIAL"})
    void shouldWriteCreditFramesAsDrawn(FrameType type) throws ProtocolException {
        buffer.setMemory(0, buffer.capacity(), (byte) 0xFF);
        int length = CreditFrame.encode(buffer, AT, type, ATTEMPT, FILE, 0x1122334455667788L, 0x51525354);
        String code = String.format("%02x", type.code());
        requireBytes("20000000 09 " + code + " 0000 0d0c0b0a 04030201 8877665544332211 54535251 00000000", length);
        CreditFrame frame = new CreditFrame().wrap(buffer, AT);
        assertEquals(FILE, frame.file());
        assertEquals(0x1122334455667788L, frame.window());
        assertEquals(0x51525354, frame.slot());
        assertSame(type, Frame.requireValid(buffer, AT));
    }

    @Test
    void shouldWriteFilePrefixAsDrawn() throws ProtocolException {
        int length = FilePrefixFrame.encode(buffer, AT, ATTEMPT, FILE, 0x0FFC, 4);
        buffer.putBytes(AT + FilePrefixFrame.DATA_OFFSET, new byte[] {1, 2, 3, 4});
        requireBytes("1c000000 09 04 0000 0d0c0b0a 04030201 fc0f0000 04000000 01020304", length);
        FilePrefixFrame frame = new FilePrefixFrame().wrap(buffer, AT);
        assertEquals(FILE, frame.file());
        assertEquals(0x0FFC, frame.position());
        assertEquals(4, frame.dataLengthBytes());
        assertEquals(buffer.addressOffset() + AT + 24, frame.dataAddress());
        assertTrue(frame.isConsistent());
        assertSame(FrameType.FILE_PREFIX, Frame.requireValid(buffer, AT));
    }

    @Test
    void shouldWriteReleaseAsDrawn() throws ProtocolException {
        buffer.setMemory(0, buffer.capacity(), (byte) 0xFF);
        int length = ReleaseFrame.encode(buffer, AT, ATTEMPT, FILE, 0x2122232425262728L, 0x71727374);
        requireBytes("20000000 09 05 0000 0d0c0b0a 04030201 2827262524232221 74737271 00000000", length);
        ReleaseFrame frame = new ReleaseFrame().wrap(buffer, AT);
        assertEquals(FILE, frame.file());
        assertEquals(0x2122232425262728L, frame.order());
        assertEquals(0x71727374, frame.sourceChunk());
        assertSame(FrameType.RELEASE, Frame.requireValid(buffer, AT));
    }

    @ParameterizedTest
    @EnumSource(names = {"TRUNCATE", "SYNC", "SYNCED", "END_OF_FILE", "END_OF_IMAGE", "HEARTBEAT", "RAIL", "RESUME"})
    void shouldWriteValueFramesAsDrawn(FrameType type) throws ProtocolException {
        int length = ValueFrame.encode(buffer, AT, type, ATTEMPT, FILE, 0x1122334455667788L);
        String code = String.format("%02x", type.code());
        requireBytes("18000000 09 " + code + " 0000 0d0c0b0a 04030201 8877665544332211", length);
        ValueFrame frame = new ValueFrame().wrap(buffer, AT);
        assertEquals(FILE, frame.file());
        assertEquals(0x1122334455667788L, frame.value());
        assertSame(type, Frame.requireValid(buffer, AT));
    }

    @Test
    void shouldKeepTheCodesOfTypes() {
        assertEquals(19, FrameType.values().length);
        int[] codes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 33, 34};
        FrameType[] types = {
            FrameType.ADVERTISE,
            FrameType.CREDIT_REQUEST,
            FrameType.CREDIT_RETURN,
            FrameType.FILE_PREFIX,
            FrameType.RELEASE,
            FrameType.CREDIT,
            FrameType.CREDIT_DENIAL,
            FrameType.TRUNCATE,
            FrameType.SYNC,
            FrameType.SYNCED,
            FrameType.END_OF_FILE,
            FrameType.END_OF_IMAGE,
            FrameType.HEARTBEAT,
            FrameType.CHUNK,
            FrameType.RAIL,
            FrameType.RESUME,
            FrameType.MESSAGE,
            FrameType.MESSAGE_PART,
            FrameType.MESSAGE_END
        };
        for (int i = 0; i < codes.length; i++) {
            assertEquals(codes[i], types[i].code());
            assertSame(types[i], FrameType.of(codes[i]));
        }
        assertEquals(1, DenyReason.NO_SPACE.code());
        assertEquals(2, DenyReason.NO_FILE.code());
        assertEquals(1, NodeKind.FILE.code());
        assertEquals(2, NodeKind.DIRECTORY.code());
        assertEquals(3, NodeKind.SYMLINK.code());
        assertEquals(4, NodeKind.CARRIED.code());
    }

    @Test
    void shouldRefuseAnotherVersion() {
        ValueFrame.encode(buffer, AT, FrameType.SYNC, ATTEMPT, FILE, 1);
        buffer.putByte(AT + 4, (byte) 1);
        refused("frame of format 1 instead of 9: the peer is broken or not ppmr");
        buffer.putByte(AT + 4, (byte) 255);
        refused("frame of format 255");
    }

    @Test
    void shouldRefuseAnUnknownType() {
        ValueFrame.encode(buffer, AT, FrameType.SYNC, ATTEMPT, FILE, 1);
        Set<FrameType> known = EnumSet.noneOf(FrameType.class);
        for (int code = 0; code < 256; code++) {
            buffer.putByte(AT + 5, (byte) code);
            FrameType type = FrameType.of(code);
            if (type == null) {
                refused("frame of unknown type " + code);
            } else {
                known.add(type);
            }
        }
        assertEquals(EnumSet.allOf(FrameType.class), known);
    }

    @ParameterizedTest
    @EnumSource
    void shouldRefuseAFrameThatIsTooShortOrTooLong(FrameType type) throws ProtocolException {
        int shortest =
                switch (type) {
                    case ADVERTISE -> 64;
                    case CHUNK -> 48;
                    case CREDIT_REQUEST, CREDIT_RETURN, CREDIT, CREDIT_DENIAL, RELEASE -> 32;
                    case FILE_PREFIX, TRUNCATE, SYNC, SYNCED, END_OF_FILE, END_OF_IMAGE, HEARTBEAT, RAIL, RESUME -> 24;
                    case MESSAGE, MESSAGE_PART, MESSAGE_END -> 17;
                };
        for (int length : new int[] {Integer.MIN_VALUE, -1, 0, 15, shortest - 1, 65537, Integer.MAX_VALUE}) {
            Frame.writeHeader(buffer, AT, type, length, ATTEMPT, FILE);
            refused("frame " + type + " of " + length + " bytes: it must have " + shortest + " to 65536");
        }
        Frame.writeHeader(buffer, AT, type, shortest, ATTEMPT, FILE);
        assertSame(type, Frame.requireValid(buffer, AT));
        Frame.writeHeader(buffer, AT, type, 65536, ATTEMPT, FILE);
        assertSame(type, Frame.requireValid(buffer, AT));
    }

    @Test
    void shouldDetectPrefixesOutsideOfThePrefixOrTheFrame() {
        assertFalse(head(0, 0, 24), "no data");
        assertFalse(head(-1, 4, 28), "before the head");
        assertFalse(head(4093, 4, 28), "behind the head");
        assertFalse(head(Integer.MAX_VALUE, 4, 28), "far behind the head");
        assertFalse(head(0, -4, 20), "less than no data");
        assertFalse(head(0, 4, 27), "more data than the frame");
        assertFalse(head(0, 4, 29), "less data than the frame");
        assertTrue(head(4092, 4, 28));
        assertTrue(head(0, 4096, 4120));
    }

    private boolean head(int position, int dataLength, int frameLength) {
        FilePrefixFrame.encode(buffer, AT, ATTEMPT, FILE, position, dataLength);
        Frame.writeHeader(buffer, AT, FrameType.FILE_PREFIX, frameLength, ATTEMPT, FILE);
        return new FilePrefixFrame().wrap(buffer, AT).isConsistent();
    }

    private void refused(String reason) {
        ProtocolException e = assertThrows(ProtocolException.class, () -> Frame.requireValid(buffer, AT));
        assertTrue(e.getMessage().contains(reason), e.getMessage());
    }

    private void requireBytes(String hex, int lengthBytes) {
        byte[] bytes = new byte[lengthBytes];
        buffer.getBytes(AT, bytes);
        assertEquals(hex.replace(" ", ""), HexFormat.of().formatHex(bytes));
    }
}
