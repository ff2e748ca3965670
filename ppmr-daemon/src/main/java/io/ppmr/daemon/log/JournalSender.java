package io.ppmr.daemon.log;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Sends entries to the journal in order, without blocking the caller. Entries that the journal does not accept at once
 * wait here, up to a limit, and a thread retries while any wait. Entries above the limit are counted and dropped. An
 * entry reports their number when the journal accepts entries again. It is for any thread.
 */
final class JournalSender implements AutoCloseable {
    private static final long AGAIN_NS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final Duration LAST_TRIES = Duration.ofSeconds(2);

    private final UnixDatagramSocket socket;
    private final String identifier;
    private final long mostWaitingBytes;
    private final Deque<byte[]> waiting = new ArrayDeque<>();
    private long waitingBytes;
    private long lost;
    private boolean trying;
    private boolean closed;

    /**
     * @param identifier the identifier of the entry about dropped entries
     * @param mostWaitingBytes the limit of waiting entries
     */
    JournalSender(UnixDatagramSocket socket, String identifier, long mostWaitingBytes) {
        this.socket = socket;
        this.identifier = identifier;
        this.mostWaitingBytes = mostWaitingBytes;
    }

    /** Sends an entry now or, if the journal does not accept it, later. */
    synchronized void send(byte[] entry) {
        if (closed) {
            return;
        }
        UnixDatagramSocket.Sent sent = waiting.isEmpty() ? socket.send(entry) : UnixDatagramSocket.Sent.LATER;
        if (sent == UnixDatagramSocket.Sent.TAKEN) {
            return;
        }
        if (sent == UnixDatagramSocket.Sent.NEVER || waitingBytes + entry.length > mostWaitingBytes) {
            lost++;
        } else {
            waiting.add(entry);
            waitingBytes += entry.length;
        }
        if (!trying) {
            trying = true;
            Thread thread = new Thread(this::tryAgain, "ppmr-journal");
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void tryAgain() {
        while (!nothingWaits()) {
            LockSupport.parkNanos(AGAIN_NS);
        }
    }

    private synchronized boolean nothingWaits() {
        while (!waiting.isEmpty()) {
            UnixDatagramSocket.Sent sent = socket.send(waiting.peek());
            if (sent == UnixDatagramSocket.Sent.LATER) {
                return false;
            }
            lost += sent == UnixDatagramSocket.Sent.NEVER ? 1 : 0;
            waitingBytes -= waiting.remove().length;
        }
        if (lost > 0 && socket.send(lostEntry()) == UnixDatagramSocket.Sent.LATER) {
            return false;
        }
        lost = 0;
        trying = false;
        return true;
    }

    private byte[] lostEntry() {
        return new LogEntry()
                .add(
                        "MESSAGE",
                        lost + " log entries are lost: the journal took none for a while, and " + mostWaitingBytes
                                + " bytes may wait for it")
                .add("PRIORITY", "4")
                .add("SYSLOG_IDENTIFIER", identifier)
                .datagram();
    }

    /** Retries the waiting entries for at most two seconds, and stops. */
    @Override
    public void close() {
        long deadlineNs = System.nanoTime() + LAST_TRIES.toNanos();
        while (!nothingWaits() && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(AGAIN_NS);
        }
        synchronized (this) {
            closed = true;
            waiting.clear();
            socket.close();
        }
    }

    /**
     * One entry in the journal's own form (systemd.io/JOURNAL_NATIVE_PROTOCOL). A field is a line NAME=value. A field
     * whose value has line ends is its name, its length in eight bytes, and the value. It is for one thread.
     */
    static final class LogEntry {
        /**
         * The longest message beside the other fields of a datagram. A longer message is truncated, and the entry
         * contains a note.
         */
        static final int MAX_VALUE_BYTES = 96 * 1024;

        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);

        LogEntry add(String name, String value) {
            byte[] text = shortened(value);
            bytes.writeBytes(name.getBytes(StandardCharsets.US_ASCII));
            if (value.indexOf('\n') < 0) {
                bytes.write('=');
            } else {
                bytes.write('\n');
                bytes.writeBytes(ByteBuffer.allocate(Long.BYTES)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(text.length)
                        .array());
            }
            bytes.writeBytes(text);
            bytes.write('\n');
            return this;
        }

        private static byte[] shortened(String value) {
            byte[] text = value.getBytes(StandardCharsets.UTF_8);
            if (text.length <= MAX_VALUE_BYTES) {
                return text;
            }
            String kept = new String(text, 0, MAX_VALUE_BYTES, StandardCharsets.UTF_8);
            return (kept + " ... (" + (text.length - MAX_VALUE_BYTES) + " bytes left out)")
                    .getBytes(StandardCharsets.UTF_8);
        }

        byte[] datagram() {
            return bytes.toByteArray();
        }
    }
}
