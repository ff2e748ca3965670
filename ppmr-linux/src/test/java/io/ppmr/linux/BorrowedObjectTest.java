package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Changes the owner of pipes and sockets, and of nothing else: root changes it, and the user may exchange the file. */
@Timeout(30)
class BorrowedObjectTest {
    private static final int USER = 20_001;
    /** SO_PEERCRED. */
    private static final int PEER_CREDENTIALS = 17;

    @TempDir
    private Path directory;

    private interface Attempt {
        void with(int pid) throws IOException;
    }

    private static void run(ProcessBuilder.Redirect input, Attempt attempt) throws Exception {
        assumeTrue(LibC.isRoot(), "only root gives files away");
        Process process = new ProcessBuilder("sleep", "60").redirectInput(input).start();
        try {
            attempt.with((int) process.pid());
        } finally {
            process.destroyForcibly();
            assertTrue(process.waitFor(10, TimeUnit.SECONDS));
        }
    }

    private static Object ownerOf(String path) throws IOException {
        return Files.getAttribute(Path.of(path), "unix:uid");
    }

    private static void give(int pid) throws IOException {
        try (BorrowedObject pipe = BorrowedObject.of(pid, 0)) {
            pipe.changeOwner(USER, USER);
        }
    }

    @Test
    void shouldChangeTheOwnerOfAPipe() throws Exception {
        run(ProcessBuilder.Redirect.PIPE, pid -> {
            give(pid);
            assertEquals(USER, ownerOf("/proc/" + pid + "/fd/0"));
        });
    }

    /** A user who continues a copy could put another file in place of a pipe. */
    @Test
    void shouldRefuseAFileInPlaceOfAPipe() throws Exception {
        Path file = Files.createFile(directory.resolve("of-root"));
        run(ProcessBuilder.Redirect.from(file.toFile()), pid -> {
            assertThrows(IOException.class, () -> give(pid));
            assertEquals(0, ownerOf(file.toString()));
        });
    }

    @Test
    void shouldRefuseAPipeThatHasAName() throws Exception {
        Path fifo = directory.resolve("fifo");
        assertEquals(0, new ProcessBuilder("mkfifo", fifo.toString()).start().waitFor());
        // Both ends at once, so that opening it does not block.
        Process process = new ProcessBuilder("sh", "-c", "exec sleep 60 0<>" + fifo).start();
        try {
            assumeTrue(LibC.isRoot(), "only root gives files away");
            while (!"sleep"
                    .equals(Files.readString(Path.of("/proc/" + process.pid() + "/comm"))
                            .strip())) {
                Thread.onSpinWait();
            }
            assertThrows(IOException.class, () -> give((int) process.pid()));
            assertEquals(0, ownerOf(fifo.toString()));
        } finally {
            process.destroyForcibly();
            assertTrue(process.waitFor(10, TimeUnit.SECONDS));
        }
    }

    /** Clients learn the listening user by SO_PEERCRED; because root created the socket, that would be root. */
    @Test
    void shouldListenAsTheUserOfAUnixSocket() throws Exception {
        assumeTrue(LibC.isRoot(), "only root gives files away");
        int own = (int) ProcessHandle.current().pid();
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of(directory.resolve("socket"));
        Set<Integer> before = descriptors();
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            int listening = newSince(before);
            server.bind(address, 5);
            try (BorrowedObject object = BorrowedObject.of(own, listening)) {
                assertTrue(object.isOwnedBy(0, 0));
                object.changeOwner(USER, USER);
                object.listenAs(USER, USER, 5);
                assertTrue(object.isOwnedBy(USER, USER));
            }
            before = descriptors();
            try (SocketChannel client = SocketChannel.open(StandardProtocolFamily.UNIX)) {
                int number = newSince(before);
                assertTrue(client.connect(address));
                try (BorrowedSocket borrowed = BorrowedSocket.of(own, number)) {
                    ByteBuffer peer = ByteBuffer.wrap(borrowed.value(LibC.SOCKET_LEVEL, PEER_CREDENTIALS, 12)
                                    .orElseThrow())
                            .order(ByteOrder.nativeOrder());
                    assertEquals(USER, peer.getInt(4));
                    assertEquals(USER, peer.getInt(8));
                }
            }
        }
    }

    private static Set<Integer> descriptors() throws IOException {
        Set<Integer> found = new TreeSet<>();
        for (String number : Objects.requireNonNull(new File("/proc/self/fd").list())) {
            if (ProcFiles.link("/proc/self/fd/" + number).orElse("").startsWith("socket:")) {
                found.add(Integer.valueOf(number));
            }
        }
        return found;
    }

    private static int newSince(Set<Integer> before) throws IOException {
        Set<Integer> now = descriptors();
        now.removeAll(before);
        return now.iterator().next();
    }
}
