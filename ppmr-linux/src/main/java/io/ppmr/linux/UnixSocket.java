package io.ppmr.linux;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * A Unix socket as sock_diag(7) describes it.
 *
 * @param inode its number, by which descriptors show it
 * @param type SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET as a number
 * @param state 1 connected, 7 not connected, 10 listening
 * @param peer the number of the connected socket; 0 if there is none, the peer was closed, or the connection was not
 *     accepted
 * @param name the address that it is bound to, one character for each byte; empty if it has none. An abstract address
 *     begins with a zero character
 * @param fileDevice the filesystem of that address, as MAJOR:MINOR; empty if it is not a file
 * @param fileInode the number of that file; 0 if it is not a file
 * @param waiting for a listening socket, the sockets whose connections it did not accept yet; 0 for a closed one
 * @param backlog for a listening socket, the limit of such connections
 */
public record UnixSocket(
        long inode,
        int type,
        int state,
        long peer,
        String name,
        String fileDevice,
        long fileInode,
        List<Long> waiting,
        int backlog) {
    private static final int DATAGRAM = 2;
    private static final int CONNECTED = 1;
    private static final int LISTENS = 10;

    private static final int SOCK_DIAG = 4;
    private static final short BY_FAMILY = 20;
    private static final short REQUEST_DUMP = 0x301;
    private static final int FAMILY = 1;
    /** Name, file, peer, waiting connections and queue lengths: UDIAG_SHOW_*. */
    private static final int SHOW = 0x1 | 0x2 | 0x4 | 0x8 | 0x10;

    private static final int HEADER_BYTES = 16;
    private static final int REQUEST_BYTES = HEADER_BYTES + 24;
    private static final int ANSWER_BYTES = 1 << 16;
    private static final int SOCKET_BYTES = 16;
    private static final int ATTRIBUTE_BYTES = 4;
    private static final int ERROR = 2;
    private static final int DONE = 3;
    private static final int NAME = 0;
    private static final int FILE = 1;
    private static final int PEER = 2;
    private static final int WAITING = 3;
    private static final int QUEUES = 4;
    /** The kernel's own form of a device number. */
    private static final int MINOR_BITS = 20;

    private static final int O_CLOEXEC = 02000000;
    private static final int NETWORK_NAMESPACE = 0x40000000;
    private static final int NO_WAIT = 0x40;
    private static final long THREAD_LIMIT_MS = 10_000;

    public UnixSocket {
        waiting = List.copyOf(waiting);
    }

    public boolean isDatagram() {
        return type == DATAGRAM;
    }

    public boolean isConnected() {
        return state == CONNECTED;
    }

    public boolean isListening() {
        return state == LISTENS;
    }

    /**
     * Returns Unix sockets of a network namespace, by their numbers, in one pass of the kernel. The list includes the
     * sockets of all users, so only the matching ones are kept.
     *
     * @param process the PID of a process in the namespace, or {@code self}
     * @param wanted selects the sockets to return
     * @throws IOException if the kernel does not list them, or the process no longer exists
     */
    public static Map<Long, UnixSocket> inNamespaceOf(String process, Predicate<UnixSocket> wanted) throws IOException {
        int descriptor = connect("/proc/" + process + "/ns/net");
        try {
            ByteBuffer request = ByteBuffer.allocate(REQUEST_BYTES)
                    .order(ByteOrder.nativeOrder())
                    .putInt(REQUEST_BYTES)
                    .putShort(BY_FAMILY)
                    .putShort(REQUEST_DUMP)
                    .putLong(0)
                    .putInt(FAMILY)
                    .putInt(-1)
                    .putInt(0)
                    .putInt(SHOW)
                    .putLong(-1);
            if (LibC.CALLS.send(descriptor, request.array(), REQUEST_BYTES, 0) < 0) {
                throw new IOException("the kernel does not list Unix sockets: " + LibC.describe(LibC.errno()));
            }
            return read(descriptor, wanted);
        } finally {
            LibC.CALLS.close(descriptor);
        }
    }

    /** A separate thread enters the namespace, since no other code may run there. The socket stays in the namespace. */
    private static int connect(String namespace) throws IOException {
        int[] made = {-1};
        String[] failure = {"its thread did not end within 10 s"};
        Thread inside = new Thread(
                () -> {
                    byte[] path = (namespace + '\0').getBytes(StandardCharsets.US_ASCII);
                    int descriptor = LibC.CALLS.open(path, O_CLOEXEC);
                    if (descriptor < 0 || LibC.CALLS.setns(descriptor, NETWORK_NAMESPACE) != 0) {
                        failure[0] = namespace + " cannot be entered: " + LibC.describe(LibC.errno());
                    } else {
                        made[0] = LibC.CALLS.socket(LibC.NETLINK, LibC.RAW | O_CLOEXEC, SOCK_DIAG);
                        failure[0] = LibC.describe(LibC.errno());
                    }
                    if (descriptor >= 0) {
                        LibC.CALLS.close(descriptor);
                    }
                },
                "sock-diag");
        inside.start();
        UninterruptedWait.of(() -> {
            inside.join(THREAD_LIMIT_MS);
            return true;
        });
        if (inside.isAlive() || made[0] < 0) {
            throw new IOException("the kernel's list of Unix sockets cannot be requested: " + failure[0]);
        }
        return made[0];
    }

    private static Map<Long, UnixSocket> read(int descriptor, Predicate<UnixSocket> wanted) throws IOException {
        Map<Long, UnixSocket> sockets = new HashMap<>();
        byte[] answer = new byte[ANSWER_BYTES];
        while (true) {
            // The kernel produces the next part of the list when the previous part was read.
            long length = LibC.CALLS.recv(descriptor, answer, answer.length, NO_WAIT);
            if (length <= 0) {
                throw new IOException(
                        "the kernel's list of Unix sockets is incomplete: " + LibC.describe(LibC.errno()));
            }
            ByteBuffer messages = ByteBuffer.wrap(answer, 0, (int) length).order(ByteOrder.nativeOrder());
            int at = 0;
            while (at + HEADER_BYTES <= length) {
                int size = messages.getInt(at);
                int type = messages.getShort(at + Integer.BYTES);
                if (type == DONE) {
                    return sockets;
                }
                if (type == ERROR || size < HEADER_BYTES + SOCKET_BYTES || at + size > length) {
                    throw new IOException("the kernel does not list Unix sockets (CONFIG_UNIX_DIAG), which CRIU needs,"
                            + " too: error " + (type == ERROR ? -messages.getInt(at + HEADER_BYTES) : size));
                }
                UnixSocket socket = parse(messages, at + HEADER_BYTES, at + size);
                if (wanted.test(socket)) {
                    sockets.put(socket.inode(), socket);
                }
                at += aligned(size);
            }
        }
    }

    private static UnixSocket parse(ByteBuffer from, int start, int end) {
        int type = from.get(start + 1);
        int state = from.get(start + 2);
        long inode = Integer.toUnsignedLong(from.getInt(start + Integer.BYTES));
        long peer = 0;
        String name = "";
        String device = "";
        long file = 0;
        List<Long> waiting = new ArrayList<>();
        int backlog = 0;
        int at = start + SOCKET_BYTES;
        while (at + ATTRIBUTE_BYTES <= end) {
            int size = Short.toUnsignedInt(from.getShort(at));
            int kind = from.getShort(at + Short.BYTES);
            int value = at + ATTRIBUTE_BYTES;
            if (size < ATTRIBUTE_BYTES || at + size > end) {
                break;
            }
            switch (kind) {
                case NAME -> {
                    byte[] bytes = new byte[size - ATTRIBUTE_BYTES];
                    from.get(value, bytes);
                    name = new String(bytes, StandardCharsets.ISO_8859_1);
                }
                case FILE -> {
                    file = Integer.toUnsignedLong(from.getInt(value));
                    int number = from.getInt(value + Integer.BYTES);
                    device = (number >>> MINOR_BITS) + ":" + (number & ((1 << MINOR_BITS) - 1));
                }
                case PEER -> peer = Integer.toUnsignedLong(from.getInt(value));
                case WAITING -> {
                    for (int next = value; next + Integer.BYTES <= at + size; next += Integer.BYTES) {
                        waiting.add(Integer.toUnsignedLong(from.getInt(next)));
                    }
                }
                // For a listening socket the second length is the limit.
                case QUEUES -> backlog = from.getInt(value + Integer.BYTES);
                default -> {
                    // Memory, and attributes of later kernels.
                }
            }
            at += aligned(size);
        }
        return new UnixSocket(inode, type, state, peer, name, device, file, waiting, state == LISTENS ? backlog : 0);
    }

    private static int aligned(int size) {
        return (size + Integer.BYTES - 1) & -Integer.BYTES;
    }
}
