package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.files.OpenedFiles.FileSink;
import io.ppmr.linux.BorrowedSocket;
import io.ppmr.linux.CannotBorrowException;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.UnixSocket;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Lists the files that a process's Unix sockets are bound to, unix(7). A restart makes such a file again, and removes
 * the one that has its name. For one scan and one thread; touches no process, and accesses no file.
 */
public final class BoundNames {
    private static final String SOCKET = "socket:[";
    private static final String PLACE = "the name of socket ";
    /** The kernel's list of sockets has only the low bits of a file's number. */
    private static final long LISTED_BITS = 0xffff_ffffL;

    /** The sockets with files, by network namespace. The kernel lists them once for each. */
    private final Map<String, Map<Long, UnixSocket>> ofNetworks = new HashMap<>();

    /** The paths by the files' numbers. Each accepted connection has the file of its server. */
    private final Map<String, Optional<String>> paths = new HashMap<>();

    /** Passes the files of a process, or none if it ended. */
    public void read(int pid, FileSink sink) throws IOException {
        String process = ProcStat.read(Path.of("/proc", Integer.toString(pid), "stat"))
                .map(ProcStat::name)
                .orElse("");
        try (ProcFolder links = ProcFolder.open("/proc/" + pid + "/fd")) {
            links.forEach(number -> {
                Optional<String> link = links.link(number);
                if (link.isPresent() && link.get().startsWith(SOCKET)) {
                    socket(pid, process, number, link.get(), sink);
                }
                return true;
            });
        } catch (NoSuchFileException e) {
            // The process ended.
            return;
        }
    }

    private void socket(int pid, String process, String number, String link, FileSink sink) throws IOException {
        UnixSocket bound = inNetworkOf(pid).get(Long.parseLong(link.substring(SOCKET.length(), link.length() - 1)));
        if (bound == null) {
            return;
        }
        String file = bound.fileDevice() + " " + bound.fileInode();
        Optional<String> path = paths.get(file);
        if (path == null) {
            path = pathOf(pid, number, bound);
            paths.put(file, path);
        }
        if (path.isPresent()) {
            sink.accept(new OpenedFile(
                    pid,
                    process,
                    PLACE + number,
                    "",
                    path.get(),
                    Long.toString(bound.fileInode()),
                    false,
                    false,
                    false));
        }
    }

    private Map<Long, UnixSocket> inNetworkOf(int pid) throws IOException {
        String network = ProcFiles.link("/proc/" + pid + "/ns/net").orElse("");
        Map<Long, UnixSocket> found = ofNetworks.get(network);
        if (found == null) {
            found = UnixSocket.inNamespaceOf(Integer.toString(pid), socket -> socket.fileInode() != 0);
            ofNetworks.put(network, found);
        }
        return found;
    }

    /** Returns the path, or empty if the socket was closed, or only its relative name is known. */
    private static Optional<String> pathOf(int pid, String number, UnixSocket bound) throws IOException {
        try (BorrowedSocket socket = BorrowedSocket.of(pid, Integer.parseInt(number))) {
            return socket.boundPath().or(() -> absolute(bound));
        } catch (CannotBorrowException e) {
            return absolute(bound);
        } catch (IOException e) {
            if (ProcFiles.link("/proc/" + pid + "/fd/" + number)
                    .filter(link -> link.startsWith(SOCKET))
                    .isPresent()) {
                throw e;
            }
            return Optional.empty();
        }
    }

    /** Returns the name that the job gave, which must do on kernels that show no path. */
    private static Optional<String> absolute(UnixSocket bound) {
        return Optional.of(terminated(bound.name())).filter(name -> name.startsWith("/"));
    }

    private static String terminated(String name) {
        int end = name.indexOf('\0');
        return end < 0 ? name : name.substring(0, end);
    }

    /** Returns true if it is one of these files. */
    public static boolean isOne(OpenedFile file) {
        return file.place().startsWith(PLACE);
    }

    /** Returns true if the process still has the socket. */
    static boolean isStillThere(OpenedFile file) throws IOException {
        String number = file.place().substring(PLACE.length());
        return ProcFiles.link("/proc/" + file.pid() + "/fd/" + number)
                .filter(link -> link.startsWith(SOCKET))
                .isPresent();
    }

    /** Returns true if the file at the path is still the one that the socket is bound to. */
    public static boolean hasName(OpenedFile file, FileFacts facts) {
        return facts.isSocket() && file.inode().equals(Long.toString(Long.parseLong(facts.inode()) & LISTED_BITS));
    }
}
