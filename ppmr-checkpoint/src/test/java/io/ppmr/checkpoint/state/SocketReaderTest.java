package io.ppmr.checkpoint.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class SocketReaderTest {
    private static final int SELF = (int) ProcessHandle.current().pid();

    /** The kernel gives an accepted socket values that no process can set, such as the TTL of its peer's packets. */
    @ParameterizedTest
    @EnumSource(names = {"INET", "INET6"})
    void shouldReadOnlyOptionsThatCanBeSetWhenASocketWasAccepted(StandardProtocolFamily family) throws IOException {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: it borrows descriptors");
        InetAddress loopback = InetAddress.getByName(family == StandardProtocolFamily.INET ? "127.0.0.1" : "::1");
        Set<String> before = descriptors();
        try (ServerSocketChannel listener = ServerSocketChannel.open(family)) {
            listener.bind(new InetSocketAddress(loopback, 0));
            try (SocketChannel connected = SocketChannel.open(listener.getLocalAddress());
                    SocketChannel accepted = listener.accept()) {
                assertTrue(connected.isConnected() && accepted.isConnected());
                Set<String> opened = descriptors();
                opened.removeAll(before);
                List<String> failed = new ArrayList<>();
                SocketReader reader = new SocketReader();
                for (String socket : opened) {
                    String[] words = socket.split(" ", 2);
                    Optional<SocketSettings> read =
                            reader.read(SELF, SELF, Integer.parseInt(words[0]), Long.parseLong(words[1]));
                    read.ifPresent(settings -> failed.addAll(settings.set(SELF)));
                }
                assertTrue(opened.size() >= 3, opened::toString);
                assertEquals(List.of(), failed);
            }
        }
    }

    /** Returns the descriptors of this process's sockets, each with the socket's inode number. */
    private static Set<String> descriptors() throws IOException {
        Set<String> found = new HashSet<>();
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            for (Path descriptor : open.toList()) {
                if (Files.isSymbolicLink(descriptor)) {
                    String target = Files.readSymbolicLink(descriptor).toString();
                    if (target.startsWith("socket:[")) {
                        found.add(descriptor.getFileName() + " "
                                + target.substring("socket:[".length(), target.length() - 1));
                    }
                }
            }
        }
        return found;
    }
}
