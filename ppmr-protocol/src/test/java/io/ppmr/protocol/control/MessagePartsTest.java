package io.ppmr.protocol.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageFields;
import io.ppmr.protocol.data.MessageParts;
import io.ppmr.protocol.data.ProtocolException;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

/** A message that does not fit one frame, such as a Begin with the places of ten thousand ranks. */
class MessagePartsTest {
    private static final int ATTEMPT = 3;

    private final MessageParts parts = new MessageParts(MessageParts.ReassemblyBudget.forOneConnection());

    private static ControlMessage.Begin begin(int places) {
        List<Integer> ranks =
                IntStream.range(0, Math.min(places, 10_000)).boxed().toList();
        return new ControlMessage.Begin(
                "m-1",
                new MigrationSecret(5, 6),
                "job",
                "criu",
                1000,
                100,
                ranks,
                new ControlMessage.Begin.TransferPlan(131072, 2, 3, 0),
                List.of("spare-1:7411"),
                0,
                new ControlMessage.Begin.Placement(
                        ranks,
                        IntStream.range(0, places)
                                .mapToObj(rank -> rank + " node-" + rank + ".cluster.example")
                                .toList()),
                "");
    }

    private Message take(List<DirectBuffer> frames) throws ProtocolException {
        Message whole = null;
        for (DirectBuffer frame : frames) {
            assertNull(whole, "a message that is whole before its end");
            whole = parts.add(Frame.requireValid(frame, 0), frame, 0, ControlMessage::read);
        }
        return whole;
    }

    private static DirectBuffer frame(FrameType type, int lengthBytes) {
        UnsafeBuffer frame = new UnsafeBuffer(new byte[lengthBytes]);
        Frame.writeHeader(frame, 0, type, lengthBytes, ATTEMPT, 0);
        return frame;
    }

    private String refusal(FrameType type, int lengthBytes) {
        return assertThrows(
                        ProtocolException.class,
                        () -> parts.add(type, frame(type, lengthBytes), 0, ControlMessage::read))
                .getMessage();
    }

    @Test
    void shouldSendTheNodesOfTenThousandRanksInSeveralFrames() throws Exception {
        ControlMessage.Begin begin = begin(10_000);
        List<DirectBuffer> frames = begin.frames(ATTEMPT);
        assertTrue(frames.size() > 4, frames.size() + " frames");
        assertEquals(begin, take(frames));
        assertEquals(begin, take(frames), "the next message begins again");
    }

    @Test
    void shouldSendAListOfMaximumLengthOnly() throws Exception {
        ControlMessage.Begin most = begin(MessageFields.MAX_LIST_ENTRIES);
        assertEquals(most, take(most.frames(ATTEMPT)));
        ControlMessage.Begin tooMany = begin(MessageFields.MAX_LIST_ENTRIES + 1);
        String said = assertThrows(IllegalArgumentException.class, () -> tooMany.frames(ATTEMPT))
                .getMessage();
        assertTrue(said.contains("a list of 16385 entries"), said);
    }

    @Test
    void shouldRefuseByNameToReadAListThatIsTooLong() throws Exception {
        List<DirectBuffer> frames = begin(MessageFields.MAX_LIST_ENTRIES).frames(ATTEMPT);
        UnsafeBuffer first = (UnsafeBuffer) frames.get(0);
        // The count of ranks follows the header, code, name, secret, job, checkpointer and two numbers.
        int count = Frame.HEADER_BYTES + 1 + 4 + 16 + 4 + 5 + 8;
        assertEquals(10_000, first.getInt(count));
        first.putInt(count, MessageFields.MAX_LIST_ENTRIES + 1);
        String said = assertThrows(ProtocolException.class, () -> take(frames)).getMessage();
        assertTrue(said.contains("a list of 16385 entries"), said);
    }

    @Test
    void shouldSendAShortMessageInOneFrame() {
        List<DirectBuffer> frames = begin(100).frames(ATTEMPT);
        assertEquals(1, frames.size());
        assertEquals(begin(100).frame(ATTEMPT), frames.get(0));
        int most = Frame.MAX_FRAME_BYTES - Frame.HEADER_BYTES - 4;
        assertEquals(
                1,
                new DataMessage.TransferFailure("x".repeat(most))
                        .frames(ATTEMPT)
                        .size());
        assertEquals(
                2,
                new DataMessage.TransferFailure("x".repeat(most + 1))
                        .frames(ATTEMPT)
                        .size());
    }

    @Test
    void shouldRefuseAnEndWithoutABeginning() {
        assertTrue(refusal(FrameType.MESSAGE_END, 64).contains("a MESSAGE_END without a MESSAGE_PART"));
    }

    @Test
    void shouldRefuseAPartThatIsNotFull() {
        assertTrue(refusal(FrameType.MESSAGE_PART, Frame.MAX_FRAME_BYTES - 1).contains("which is not full"));
    }

    @Test
    void shouldRefuseAMessageWithoutAnEnd() throws Exception {
        int full = Frame.MAX_FRAME_BYTES;
        for (int bytes = full - Frame.HEADER_BYTES;
                bytes <= MessageParts.MAX_MESSAGE_BYTES;
                bytes += full - Frame.HEADER_BYTES) {
            assertNull(parts.add(FrameType.MESSAGE_PART, frame(FrameType.MESSAGE_PART, full), 0, ControlMessage::read));
        }
        assertTrue(refusal(FrameType.MESSAGE_PART, full).contains("a message of more than 2097152 bytes"));
    }

    @Test
    void shouldRefuseToWriteAMessageThatIsTooLong() {
        Message message = new ControlMessage.OriginalRights(0, true, Collections.nCopies(35, "x".repeat(60_000)));
        String said = assertThrows(IllegalArgumentException.class, () -> message.frames(ATTEMPT))
                .getMessage();
        assertTrue(said.contains("OriginalRights of 2100115 bytes"), said);
    }

    @Test
    void shouldBoundTheMemoryOfAllConnectionsMessages() throws Exception {
        MessageParts.ReassemblyBudget room = new MessageParts.ReassemblyBudget(8 * Frame.MAX_FRAME_BYTES);
        DirectBuffer part = frame(FrameType.MESSAGE_PART, Frame.MAX_FRAME_BYTES);
        MessageParts one = new MessageParts(room);
        MessageParts other = new MessageParts(room);
        assertNull(one.add(FrameType.MESSAGE_PART, part, 0, ControlMessage::read));
        assertNull(other.add(FrameType.MESSAGE_PART, part, 0, ControlMessage::read));
        MessageParts third = new MessageParts(room);
        String said = assertThrows(
                        ProtocolException.class, () -> third.add(FrameType.MESSAGE_PART, part, 0, ControlMessage::read))
                .getMessage();
        assertTrue(said.contains("no memory for a message"), said);
        one.discard();
        assertNull(third.add(FrameType.MESSAGE_PART, part, 0, ControlMessage::read));
    }
}
