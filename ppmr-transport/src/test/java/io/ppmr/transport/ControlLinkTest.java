package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.LinkRunner.Taken;
import io.ppmr.transport.auth.PeerConnection;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class ControlLinkTest {
    private static final int ATTEMPT = 5;
    private static final int PATIENCE = Integer.getInteger("ppmr.patience", 1);
    private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);

    private final List<LinkRunner> runners = new ArrayList<>();
    private Loopback pair;

    @BeforeEach
    void connect() throws IOException {
        pair = Loopback.open();
    }

    @AfterEach
    void disconnect() throws Exception {
        for (LinkRunner runner : runners) {
            runner.stop();
        }
        pair.close();
    }

    // ---- received frames --------------------------------------------------------------------------------------

    @Test
    void shouldKeepTheOrderOfEachSenderWhenManySend() throws Exception {
        int senders = 8;
        int framesEach = 3_000;
        LinkRunner near = run(pair.near(), ATTEMPT, MINUTE_NS);
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        AtomicReference<Exception> trouble = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i <= senders; i++) {
            int self = i;
            Thread thread = new Thread(() -> {
                try {
                    for (int frame = 0; frame < framesEach; frame++) {
                        near.link().sendValue(FrameType.SYNC, self, frame);
                    }
                } catch (IOException e) {
                    trouble.set(e);
                }
            });
            threads.add(thread);
            thread.start();
        }
        Loopback.until("every frame", () -> far.taken().size() == senders * framesEach || far.failure() != null);
        for (Thread thread : threads) {
            thread.join(60_000);
        }
        assertNull(trouble.get());
        assertNull(far.failure());
        long[] next = new long[senders + 1];
        for (Taken frame : far.taken()) {
            assertEquals(next[frame.file()]++, frame.value(), "frame of sender " + frame.file());
        }
    }

    @Test
    void shouldKeepTheOrderOfMessagesAndFramesOfOneSender() throws Exception {
        LinkRunner near = run(pair.near(), ATTEMPT, MINUTE_NS);
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        for (int i = 0; i < 400; i++) {
            near.link().send(new DataMessage.TransferFailure("m" + i + "x".repeat(i * 50)));
            near.link().sendValue(FrameType.TRUNCATE, 1, i);
        }
        Loopback.until("every frame", () -> far.taken().size() == 800 || far.failure() != null);
        assertNull(far.failure());
        for (int i = 0; i < 400; i++) {
            DataMessage.TransferFailure message = assertInstanceOf(
                    DataMessage.TransferFailure.class, far.taken().get(2 * i).message());
            assertEquals("m" + i + "x".repeat(i * 50), message.reason());
            assertEquals(i, far.taken().get(2 * i + 1).value());
        }
    }

    @Test
    void shouldNotMixLongMessagesWhenManySend() throws Exception {
        int senders = 4;
        int messagesEach = 20;
        LinkRunner near = run(pair.near(), ATTEMPT, MINUTE_NS);
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        AtomicReference<Exception> trouble = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < senders; i++) {
            List<String> lines = Collections.nCopies(5, String.valueOf(i).repeat(60_000));
            Thread thread = new Thread(() -> {
                try {
                    for (int message = 0; message < messagesEach; message++) {
                        near.link().send(new ControlMessage.OriginalRights(0, true, lines));
                        near.link().send(new DataMessage.TransferFailure("short"));
                    }
                } catch (IOException | RuntimeException e) {
                    trouble.set(e);
                }
            });
            threads.add(thread);
            thread.start();
        }
        Loopback.until(
                "every message", () -> far.taken().size() == 2 * senders * messagesEach || far.failure() != null);
        for (Thread thread : threads) {
            thread.join(60_000);
        }
        assertNull(trouble.get());
        assertNull(far.failure());
        int[] came = new int[senders];
        for (Taken frame : far.taken()) {
            if (frame.message() instanceof ControlMessage.OriginalRights originals) {
                String first = originals.lines().get(0).substring(0, 1);
                assertEquals(Collections.nCopies(5, first.repeat(60_000)), originals.lines(), "another's bytes");
                came[Integer.parseInt(first)]++;
            } else {
                assertEquals(new DataMessage.TransferFailure("short"), frame.message());
            }
        }
        for (int count : came) {
            assertEquals(messagesEach, count);
        }
    }

    @Test
    void shouldAcceptFramesThatArriveByteByByte() throws Exception {
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        ByteBuffer bytes = ByteBuffer.allocate(24 * 3);
        bytes.put(value(FrameType.SYNC, ATTEMPT, 1)).put(value(FrameType.SYNC, ATTEMPT, 2));
        bytes.put(value(FrameType.SYNC, ATTEMPT, 3)).flip();
        while (bytes.hasRemaining()) {
            ByteBuffer one = bytes.slice(bytes.position(), 1);
            bytes.position(bytes.position() + 1);
            write(one);
        }
        Loopback.until("three frames", () -> far.taken().size() == 3);
        assertEquals(List.of(1L, 2L, 3L), far.taken().stream().map(Taken::value).toList());
    }

    /** Simulates a suspended machine: System.nanoTime stopped, but the suspended time counts. */
    @Test
    void shouldBeLostWhenTheMachineWasSuspendedForLongerThanTheSilenceLimit() throws Exception {
        AtomicLong clockNs = new AtomicLong(MINUTE_NS);
        try (ControlLink link = new ControlLink(
                new PeerConnection(pair.far()), ProtocolVersion.NEWEST, ATTEMPT, MINUTE_NS, clockNs::get)) {
            FrameHandler nothing = (type, buffer, offset, lengthBytes) -> {};
            assertEquals(0, link.doWork(nothing));
            clockNs.addAndGet(MINUTE_NS);
            assertEquals(0, link.doWork(nothing));
            clockNs.addAndGet(1);
            names(
                    IOException.class,
                    assertThrows(IOException.class, () -> link.doWork(nothing)),
                    "has been silent for");
        }
    }

    // ---- refused frames ---------------------------------------------------------------------------------------

    @Test
    void shouldRefuseAFrameOfAnotherAttempt() throws Exception {
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        write(value(FrameType.SYNC, ATTEMPT, 1));
        write(value(FrameType.SYNC, ATTEMPT - 1, 2));
        names(ProtocolException.class, far.awaitFailure(), "of attempt 4 on the connection of attempt 5");
        assertEquals(1, far.taken().size());
    }

    @Test
    void shouldUseTheAttemptOfTheFirstFrame() throws Exception {
        LinkRunner far = run(pair.far(), ControlLink.OF_FIRST_FRAME, MINUTE_NS);
        write(value(FrameType.SYNC, 9, 1));
        Loopback.until("a frame", () -> far.taken().size() == 1);
        assertEquals(9, far.link().attempt());
        far.link().sendValue(FrameType.SYNCED, 0, 1);
        write(value(FrameType.SYNC, 8, 1));
        names(ProtocolException.class, far.awaitFailure(), "of attempt 8 on the connection of attempt 9");
    }

    @Test
    void shouldSendNothingBeforeItsAttemptIsKnown() throws Exception {
        run(pair.far(), ControlLink.OF_FIRST_FRAME, MINUTE_NS);
        pair.near().configureBlocking(false);
        ByteBuffer into = ByteBuffer.allocate(64);
        long untilNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(1_500);
        while (System.nanoTime() - untilNs < 0) {
            assertEquals(0, pair.near().read(into), "bytes of a heartbeat that the other side must refuse");
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
        }
    }

    @Test
    void shouldRefuseAFrameThatIsTooLong() throws Exception {
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        ByteBuffer frame = value(FrameType.SYNC, ATTEMPT, 1);
        frame.putInt(0, Integer.reverseBytes(Frame.MAX_FRAME_BYTES + 1));
        write(frame);
        names(ProtocolException.class, far.awaitFailure(), "frame SYNC of 65537 bytes");
    }

    @Test
    void shouldRefuseAnotherFormat() throws Exception {
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        write(value(FrameType.SYNC, ATTEMPT, 1).put(4, (byte) 1));
        names(ProtocolException.class, far.awaitFailure(), "frame of format 1 instead of 9");
    }

    @Test
    void shouldRefuseAMessageThatCannotBeRead() throws Exception {
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        DirectBuffer frame = new ControlMessage.Accept(1, 0, 0, "").frame(ATTEMPT);
        ByteBuffer bytes = ByteBuffer.allocate(frame.capacity());
        frame.getBytes(0, bytes, frame.capacity());
        write(bytes.flip().put(Frame.HEADER_BYTES, (byte) 99));
        names(ProtocolException.class, far.awaitFailure(), "unknown code 99");
    }

    /** A defect of the sender, since it has not looked at the agreed version. */
    @Test
    void shouldNotSendAMessageThatTheAgreedVersionDoesNotHave() throws Exception {
        Message withBootId = new ControlMessage.Accept(1, 0, 0, "01234567-89ab-cdef-0123-456789abcdef");
        Message without = new ControlMessage.Accept(1, 0, 0, "");
        try (ControlLink link = new ControlLink(pair.far(), ProtocolVersion.V9, ATTEMPT, MINUTE_NS)) {
            for (Executable send : List.<Executable>of(
                    () -> link.send(withBootId),
                    () -> link.offer(withBootId),
                    () -> link.sendFromAgent(withBootId),
                    () -> link.sendAllFromAgent(withBootId))) {
                names(
                        IllegalArgumentException.class,
                        assertThrows(IllegalArgumentException.class, send),
                        "Accept of version 10 on the connection to");
            }
            assertTrue(link.isClear());
            link.sendFromAgent(without);
            assertFalse(link.isClear());
        }
        try (ControlLink link = new ControlLink(pair.near(), ProtocolVersion.V10, ATTEMPT, MINUTE_NS)) {
            link.sendFromAgent(withBootId);
            assertFalse(link.isClear());
        }
    }

    // ---- silence ----------------------------------------------------------------------------------------------

    @Test
    void shouldFailWhenThePeerIsSilentForTheLimit() throws Exception {
        long startNs = System.nanoTime();
        LinkRunner far = run(pair.far(), ATTEMPT, TimeUnit.MILLISECONDS.toNanos(300));
        names(IOException.class, far.awaitFailure(), "has been silent for 300 ms");
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
        assertTrue(tookMs >= 300 && tookMs < 60_000L * PATIENCE, "it took " + tookMs + " ms");
    }

    @Test
    void shouldNotCountTheTimeBeforeItsAgentRunsAsSilence() throws Exception {
        ControlLink link =
                new ControlLink(pair.far(), ProtocolVersion.NEWEST, ATTEMPT, TimeUnit.MILLISECONDS.toNanos(200));
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(400));
        assertEquals(0, link.doWork((type, buffer, offset, length) -> {}));
        link.close();
    }

    @Test
    void shouldFailWhenThePeerCloses() throws Exception {
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        // With an unread heartbeat the close alone would be a reset.
        pair.near().shutdownOutput();
        pair.near().close();
        names(EOFException.class, far.awaitFailure(), "was closed by the peer");
    }

    /** If a received frame is unread, a plain close of the socket sends a reset. */
    @Test
    void shouldCloseOrderlyWhenAReceivedFrameIsUnread() throws Exception {
        ControlLink far = new ControlLink(pair.far(), ProtocolVersion.NEWEST, ATTEMPT, MINUTE_NS);
        try (Selector comes = Selector.open()) {
            pair.far().register(comes, SelectionKey.OP_READ);
            write(ByteBuffer.wrap("a frame".getBytes(StandardCharsets.US_ASCII)));
            assertEquals(1, comes.select(TimeUnit.SECONDS.toMillis(20)), "the frame has not come");
        }
        far.close();
        assertEquals(-1, pair.near().read(ByteBuffer.allocate(1)));
    }

    @Test
    void shouldKeepAnIdleLinkAliveByHeartbeats() throws Exception {
        long limitNs = TimeUnit.MILLISECONDS.toNanos(3_000L * PATIENCE);
        LinkRunner near = run(pair.near(), ATTEMPT, limitNs);
        LinkRunner far = run(pair.far(), ATTEMPT, limitNs);
        long untilNs = System.nanoTime() + limitNs * 5 / 2;
        while (System.nanoTime() - untilNs < 0) {
            assertNull(near.failure());
            assertNull(far.failure());
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
        assertEquals(0, far.taken().size(), "a heartbeat is not passed on");
    }

    // ---- a peer that accepts nothing --------------------------------------------------------------------------

    @Test
    void shouldEndAClaimWhenThePeerAcceptsNothingForTheLimit() throws Exception {
        long limitMs = 1_500L * PATIENCE;
        LinkRunner near = run(pair.near(), ATTEMPT, TimeUnit.MILLISECONDS.toNanos(limitMs));
        heartbeatsFromThePeer();
        IOException e = sendUntilRefused(near.link());
        names(IOException.class, e, "took no frame for " + limitMs + " ms: the peer hangs or the network is down");
        assertNull(near.failure());
    }

    @Test
    void shouldNotWaitForSpaceWhenAMessageIsOffered() throws Exception {
        LinkRunner near = run(pair.near(), ATTEMPT, MINUTE_NS);
        Message message = new DataMessage.TransferFailure("a reason ".repeat(100));
        int taken = 0;
        while (near.link().offer(message)) {
            taken++;
        }
        assertTrue(taken > 0, "there was room at first");
        near.stop();
        names(
                IOException.class,
                assertThrows(IOException.class, () -> near.link().offer(message)),
                "is closed");
    }

    @Test
    void shouldWakeAClaimWhenTheLinkIsClosed() throws Exception {
        LinkRunner near = run(pair.near(), ATTEMPT, MINUTE_NS);
        AtomicReference<Exception> refused = new AtomicReference<>();
        Thread sender = new Thread(() -> refused.set(sendUntilRefused(near.link())));
        sender.start();
        Loopback.until("the sender waits", () -> sender.getState() == Thread.State.TIMED_WAITING);
        near.stop();
        sender.join(60_000);
        names(IOException.class, refused.get(), "is closed");
    }

    @Test
    void shouldSleepWhileThePeerAcceptsNothing() throws Exception {
        LinkRunner near = run(pair.near(), ATTEMPT, MINUTE_NS);
        Thread sender = new Thread(() -> sendUntilRefused(near.link()));
        sender.start();
        Loopback.until("the sender waits", () -> sender.getState() == Thread.State.TIMED_WAITING);
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(300));
        long beforeNs = near.cpuNs();
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1_000));
        long usedMs = TimeUnit.NANOSECONDS.toMillis(near.cpuNs() - beforeNs);
        assertTrue(usedMs < 200, "the agent used " + usedMs + " ms of 1000 while it could do nothing");
        near.stop();
        sender.join(60_000);
    }

    @Test
    void shouldDeliverEverythingOnceASlowPeerReadsAgain() throws Exception {
        LinkRunner near = run(pair.near(), ATTEMPT, MINUTE_NS);
        int frames = 1_500;
        Thread sender = new Thread(() -> {
            try {
                for (int i = 0; i < frames; i++) {
                    near.link().send(new DataMessage.TransferFailure(i + "x".repeat(20_000)));
                }
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        });
        sender.start();
        Loopback.until("the sender waits", () -> sender.getState() == Thread.State.TIMED_WAITING);
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        Loopback.until("every message", () -> far.taken().size() == frames || far.failure() != null);
        for (int i = 0; i < frames; i++) {
            String reason = ((DataMessage.TransferFailure) far.taken().get(i).message()).reason();
            assertTrue(reason.startsWith(i + "x"), reason.substring(0, 10));
        }
        sender.join(60_000);
    }

    @Test
    void shouldSendRemainingFramesWhenItIsDrained() throws Exception {
        ControlLink link = new ControlLink(pair.near(), ProtocolVersion.NEWEST, ATTEMPT, MINUTE_NS);
        for (int i = 0; i < 20; i++) {
            link.sendValue(FrameType.SYNC, 1, i);
        }
        link.sendFromAgent(new ControlMessage.Committed("m"));
        link.drain(2_000);
        link.close();
        LinkRunner far = run(pair.far(), ATTEMPT, MINUTE_NS);
        Loopback.until("all of it", () -> far.taken().size() == 21);
        assertEquals(new ControlMessage.Committed("m"), far.taken().get(20).message());
    }

    // ---- both sides -------------------------------------------------------------------------------------------

    private LinkRunner run(SocketChannel channel, int attempt, long silenceNs) throws IOException {
        LinkRunner runner = new LinkRunner(new ControlLink(channel, ProtocolVersion.NEWEST, attempt, silenceNs));
        runners.add(runner);
        return runner;
    }

    private IOException sendUntilRefused(ControlLink link) {
        Message message = new DataMessage.TransferFailure("x".repeat(30_000));
        try {
            for (int i = 0; i < 100_000; i++) {
                link.send(message);
            }
        } catch (IOException e) {
            return e;
        }
        throw new AssertionError("3 GB went to a peer that reads nothing");
    }

    private void heartbeatsFromThePeer() {
        Thread thread = new Thread(() -> {
            try {
                while (pair.far().isOpen()) {
                    ByteBuffer bytes = value(FrameType.HEARTBEAT, ATTEMPT, 0);
                    while (bytes.hasRemaining()) {
                        pair.far().write(bytes);
                    }
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
                }
            } catch (IOException e) {
                assertTrue(!pair.far().isOpen() || !pair.near().isOpen(), e.toString());
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static ByteBuffer value(FrameType type, int attempt, long value) {
        UnsafeBuffer frame = new UnsafeBuffer(new byte[ValueFrame.LENGTH_BYTES]);
        ValueFrame.encode(frame, 0, type, attempt, 1, value);
        return ByteBuffer.wrap(frame.byteArray());
    }

    private void write(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            pair.near().write(bytes);
        }
    }

    private static void names(Class<? extends Exception> kind, Exception e, String reason) {
        assertInstanceOf(kind, e);
        assertTrue(e.getMessage().contains(reason), e.getMessage());
    }
}
