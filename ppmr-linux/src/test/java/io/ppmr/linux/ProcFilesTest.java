package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Kcmp.Descriptor;
import io.ppmr.linux.ProcFiles.FileStatus;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Reads what the kernel shows of this process. */
@Timeout(60)
class ProcFilesTest {
    private static final int PID = (int) ProcessHandle.current().pid();

    @TempDir
    private Path directory;

    private static List<Integer> descriptors(String name) throws IOException {
        List<Integer> found = new ArrayList<>();
        for (String number : new File("/proc/self/fd").list()) {
            if (ProcFiles.link("/proc/self/fd/" + number).filter(name::equals).isPresent()) {
                found.add(Integer.parseInt(number));
            }
        }
        return found;
    }

    @Test
    void shouldReadAFileToItsEndAndNoFurtherThanAllowed() throws Exception {
        byte[] text = new byte[20_000];
        Arrays.fill(text, (byte) 'x');
        Path file = Files.write(directory.resolve("file"), text);
        assertEquals(
                text.length,
                ProcFiles.text(file.toString(), text.length).orElseThrow().length());
        assertThrows(IOException.class, () -> ProcFiles.text(file.toString(), text.length - 1));
        assertEquals(Optional.empty(), ProcFiles.text("/proc/0/status", 100));
    }

    /** A process without memory is about to end. The kernel shows its directory, but not its memory. */
    @Test
    void shouldTellAnEndedProcessFromAFileThatCannotBeRead() throws Exception {
        Process parent = new ProcessBuilder("sh", "-c", "sleep 0 & echo $!; exec sleep 60").start();
        try {
            String pid = parent.inputReader().readLine();
            Path stat = Path.of("/proc", pid, "stat");
            while (!Files.readString(stat).contains(") Z ")) {
                Thread.onSpinWait();
            }
            Path memory = Path.of("/proc", pid, "smaps_rollup");
            assertTrue(ProcFiles.meansGone(assertThrows(IOException.class, () -> Files.readAllLines(memory))));
            Path missing = Path.of("/proc/0/smaps");
            assertTrue(ProcFiles.meansGone(assertThrows(IOException.class, () -> Files.readAllLines(missing))));
            assertFalse(ProcFiles.meansGone(assertThrows(IOException.class, () -> Files.readAllLines(directory))));
        } finally {
            parent.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldNameAFileWhosePathIsLongerThanTheKernelShows() throws Exception {
        String deep = "n=$(printf '%0200d' 0); for i in $(seq 30); do mkdir $n && cd $n || exit 1; done;"
                + " exec 3>file; echo ready; exec cat";
        Process holder = new ProcessBuilder("bash", "-c", deep)
                .directory(directory.toFile())
                .start();
        try {
            assertEquals("ready", holder.inputReader().readLine());
            assertEquals(Optional.of(ProcFiles.UNSHOWN_PATH), ProcFiles.link("/proc/" + holder.pid() + "/fd/3"));
        } finally {
            holder.destroyForcibly().waitFor();
            new ProcessBuilder("rm", "-rf", directory.resolve("0".repeat(200)).toString())
                    .start()
                    .waitFor();
        }
    }

    @Test
    void shouldTellDevicesFilesAndFoldersApart() throws Exception {
        FileStatus nothing = ProcFiles.status("/dev/null").orElseThrow();
        assertTrue(nothing.isCharacterDevice());
        assertEquals("1:3", nothing.major() + ":" + nothing.minor());
        assertTrue(ProcFiles.status(directory.toString()).orElseThrow().isDirectory());
        FileStatus file = ProcFiles.status(
                        Files.createFile(directory.resolve("file")).toString())
                .orElseThrow();
        assertTrue(file.isRegular());
        assertEquals(1, file.links());
        assertEquals(Optional.empty(), ProcFiles.status("/nothing here"));
    }

    /** The allocated bytes are the file's length on such kernels; a disk rounds them up to blocks. */
    private static FileStatus withoutBytes(FileStatus status) {
        return new FileStatus(
                status.mode(),
                status.links(),
                status.inode(),
                status.device(),
                status.major(),
                status.minor(),
                0,
                status.uid(),
                status.gid());
    }

    @Test
    void shouldReturnTheSameOnAKernelWithoutStatx() throws Exception {
        for (String path : List.of("/dev/null", "/dev/ptmx", "/etc/passwd", "/", directory.toString())) {
            assertEquals(
                    ProcFiles.status(path).map(ProcFilesTest::withoutBytes),
                    ProcFiles.statusBeforeStatx(path).map(ProcFilesTest::withoutBytes),
                    path);
        }
        assertEquals(Optional.empty(), ProcFiles.statusBeforeStatx("/nothing here"));
    }

    @Test
    void shouldDistinguishASharedDescriptionFromTwoDescriptionsOfOneFile() throws Exception {
        Path file = directory.resolve("file").toAbsolutePath();
        try (FileOutputStream first = new FileOutputStream(file.toFile());
                FileOutputStream second = new FileOutputStream(file.toFile())) {
            first.write(1);
            second.write(1);
            List<Integer> numbers = descriptors(file.toRealPath().toString());
            Descriptor one = new Descriptor(PID, numbers.get(0));
            Descriptor other = new Descriptor(PID, numbers.get(1));
            assertEquals(OptionalInt.of(0), Kcmp.compare(one, one));
            int order = Kcmp.compare(one, other).orElseThrow();
            assertTrue(order != 0);
            assertEquals(-order, Kcmp.compare(other, one).orElseThrow());
            assertEquals(OptionalInt.empty(), Kcmp.compare(one, new Descriptor(PID, 1_000_000)));
        }
    }

    @Test
    void shouldSeeBothEndsOfAConnectionAndCloseIt() throws Exception {
        Path path = directory.resolve("socket");
        try (ServerSocketChannel server =
                        ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(path));
                SocketChannel waiting = SocketChannel.open(UnixDomainSocketAddress.of(path))) {
            Map<Long, UnixSocket> all = UnixSocket.inNamespaceOf("self", socket -> true);
            UnixSocket listening = all.values().stream()
                    .filter(socket -> socket.isListening() && socket.name().startsWith(path.toString()))
                    .findFirst()
                    .orElseThrow();
            FileStatus file = ProcFiles.status(path.toString()).orElseThrow();
            assertEquals(file.device() + " " + file.inode(), listening.fileDevice() + " " + listening.fileInode());
            assertEquals(1, listening.waiting().size());
            long client = listening.waiting().get(0);
            try (SocketChannel accepted = server.accept()) {
                UnixSocket connected = UnixSocket.inNamespaceOf("self", socket -> socket.inode() == client)
                        .get(client);
                assertTrue(connected.isConnected());
                assertTrue(connected.peer() != 0);
                int number = descriptors("socket:[" + client + "]").get(0);
                try (BorrowedSocket borrowed = BorrowedSocket.of(PID, number)) {
                    borrowed.shutDown();
                }
                assertEquals(-1, accepted.read(ByteBuffer.allocate(1)));
                assertEquals(-1, waiting.read(ByteBuffer.allocate(1)));
            }
            assertEquals(
                    0,
                    UnixSocket.inNamespaceOf("self", socket -> socket.inode() == client)
                            .get(client)
                            .peer());
        }
    }
}
