package io.ppmr.checkpoint;

import io.ppmr.linux.BorrowedSocket;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.UnixSocket;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Releases a stopped rank from its connections to servers of the node that the operator has named. CRIU reconnects a
 * datagram socket by the server's path. It cannot write one end of a stream. That end is shut down, so that the server
 * closes its end, and CRIU writes a closed connection. For any thread.
 *
 * @param paths paths of the servers' sockets
 */
record ExternalSockets(List<String> paths) {
    /** Time for a server to read the end of its client's stream and close, which normally takes milliseconds. */
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(5);

    private static final String SOCKET = "socket:[";

    ExternalSockets {
        paths = List.copyOf(paths);
    }

    /** A descriptor of a rank's process that leads to a socket. */
    private record Place(int pid, int number) {}

    /**
     * Shuts down the rank's streams to these servers. Returns the arguments with which {@code criu dump} writes the
     * datagram sockets.
     *
     * @param processes the rank's stopped processes
     * @throws CheckpointException if a connection cannot be released, or its server does not close it in time
     */
    List<String> release(int rank, List<ProcessIdentity> processes) throws CheckpointException {
        List<String> arguments = new ArrayList<>();
        if (paths.isEmpty()) {
            return arguments;
        }
        try {
            Map<Integer, Set<Long>> open = new HashMap<>();
            Set<String> servers = new HashSet<>();
            for (String path : paths) {
                ProcFiles.status(path).ifPresent(status -> servers.add(status.device() + " " + status.inode()));
            }
            for (Map.Entry<Integer, Map<Long, Place>> space :
                    byNamespace(processes).entrySet()) {
                Map<Long, UnixSocket> sockets = UnixSocket.inNamespaceOf(
                        space.getKey().toString(),
                        socket -> space.getValue().containsKey(socket.inode())
                                || space.getValue().containsKey(socket.peer())
                                || servers.contains(socket.fileDevice() + " " + socket.fileInode()));
                for (Map.Entry<Long, Place> own : space.getValue().entrySet()) {
                    UnixSocket socket = sockets.get(own.getKey());
                    UnixSocket server = socket == null ? null : sockets.get(socket.peer());
                    if (server == null || !servers.contains(server.fileDevice() + " " + server.fileInode())) {
                        continue;
                    }
                    if (socket.isDatagram()) {
                        arguments.addAll(List.of("--external", "unix[" + socket.inode() + "]"));
                    } else {
                        shutDown(own.getValue());
                        open.computeIfAbsent(space.getKey(), unknown -> new HashSet<>())
                                .add(socket.inode());
                    }
                }
            }
            requireClosed(rank, open);
            return arguments;
        } catch (IOException e) {
            throw new CheckpointException(
                    "rank " + rank + " cannot be released from its connections to " + paths + ": " + e.getMessage()
                            + ". Remedy: have the job close them, in its suspend hook if need be",
                    e);
        }
    }

    /** Returns the sockets of a rank in each network namespace, which is identified by one of its processes. */
    private static Map<Integer, Map<Long, Place>> byNamespace(List<ProcessIdentity> processes) throws IOException {
        Map<String, Integer> representatives = new HashMap<>();
        Map<Integer, Map<Long, Place>> found = new HashMap<>();
        for (ProcessIdentity process : processes) {
            int pid = process.pid();
            String own = "/proc/" + pid;
            String[] numbers = new File(own + "/fd").list();
            Optional<String> space = ProcFiles.link(own + "/ns/net");
            if (numbers == null || space.isEmpty()) {
                continue;
            }
            int first = representatives.computeIfAbsent(space.get(), unknown -> pid);
            for (String number : numbers) {
                String name = ProcFiles.link(own + "/fd/" + number).orElse("");
                if (name.startsWith(SOCKET)) {
                    found.computeIfAbsent(first, unknown -> new HashMap<>())
                            .put(
                                    Long.parseLong(name.substring(SOCKET.length(), name.length() - 1)),
                                    new Place(pid, Integer.parseInt(number)));
                }
            }
        }
        return found;
    }

    private static void shutDown(Place place) throws IOException {
        try (BorrowedSocket socket = BorrowedSocket.of(place.pid(), place.number())) {
            socket.shutDown();
        }
    }

    private void requireClosed(int rank, Map<Integer, Set<Long>> open) throws CheckpointException, IOException {
        for (Map.Entry<Integer, Set<Long>> space : open.entrySet()) {
            boolean closed = Polling.until(CLOSE_LIMIT, () -> {
                Map<Long, UnixSocket> connected = UnixSocket.inNamespaceOf(
                        space.getKey().toString(),
                        socket -> socket.peer() != 0 && space.getValue().contains(socket.inode()));
                return connected.isEmpty();
            });
            if (!closed) {
                throw new CheckpointException("rank " + rank + ": a server at " + paths
                        + " has not closed a connection within " + CLOSE_LIMIT + " after it was shut down, and CRIU"
                        + " cannot write one end of a stream. Remedy: remove that path from external_sockets, and"
                        + " have the"
                        + " job close the connection before it is moved");
            }
        }
    }
}
