package io.ppmr.migration.target;

import io.ppmr.linux.Folders;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * A note on the disk that the pods of a restart are released: it is there before the first cable goes in. The next run
 * of
 * a service that died repeats the release, and ends none of them. Immutable.
 *
 * @param move the name of the move that has brought the pods
 * @param processes their processes
 * @param stopped those that the job itself had stopped, which are not continued
 */
record RestartNote(String move, List<ProcessIdentity> processes, List<ProcessIdentity> stopped) {
    private static final String FOLDER = "restarts";
    private static final String PART = ".part";
    private static final int WORDS = 4;
    private static final String STOPPED = "stopped";

    RestartNote {
        processes = List.copyOf(processes);
        stopped = List.copyOf(stopped);
    }

    /** Returns it for pods that run: a later run of the service does not continue them once more. */
    RestartNote continued() {
        return new RestartNote(move, List.of(), List.of());
    }

    /** Returns true if the pods run. */
    boolean isContinued() {
        return processes.isEmpty();
    }

    /** Writes it. It is on the disk when this returns. */
    void write(Path journal) throws IOException {
        StringBuilder text = new StringBuilder();
        processes.forEach(process -> text.append(process.bootId())
                .append(' ')
                .append(process.pidNamespace())
                .append(' ')
                .append(process.pid())
                .append(' ')
                .append(process.startTimeTicks())
                .append(stopped.contains(process) ? " " + STOPPED : "")
                .append('\n'));
        Path folder = journal.resolve(FOLDER);
        Folders.create(folder, Folders.PRIVATE);
        Path part = folder.resolve(move + PART);
        try (FileChannel channel = FileChannel.open(
                part, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = StandardCharsets.US_ASCII.encode(text.toString());
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
        Files.move(part, folder.resolve(move), StandardCopyOption.ATOMIC_MOVE);
        sync(folder);
    }

    private static void sync(Path folder) throws IOException {
        try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    /** Removes the note of a move. */
    static void forget(Path journal, String move) throws IOException {
        Path folder = journal.resolve(FOLDER);
        if (Files.deleteIfExists(folder.resolve(move))) {
            sync(folder);
        }
    }

    /** Reads all notes that an earlier run of the service has left. Incomplete ones, which released nothing, go. */
    static List<RestartNote> left(Path journal) throws IOException {
        Path folder = journal.resolve(FOLDER);
        if (Files.isDirectory(folder)) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*" + PART)) {
                for (Path file : files) {
                    Files.delete(file);
                }
            }
        }
        return in(journal);
    }

    /** Reads all notes. Changes nothing. */
    static List<RestartNote> in(Path journal) throws IOException {
        List<RestartNote> all = new ArrayList<>();
        Path folder = journal.resolve(FOLDER);
        if (!Files.isDirectory(folder)) {
            return all;
        }
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
            for (Path file : files) {
                if (!file.getFileName().toString().endsWith(PART)) {
                    all.add(read(file));
                }
            }
        }
        return all;
    }

    private static RestartNote read(Path file) throws IOException {
        try {
            List<ProcessIdentity> processes = new ArrayList<>();
            List<ProcessIdentity> stopped = new ArrayList<>();
            for (String line : Files.readAllLines(file)) {
                String[] words = line.split(" ", -1);
                boolean isStopped = words.length == WORDS + 1 && words[WORDS].equals(STOPPED);
                if (words.length != WORDS && !isStopped) {
                    throw new IllegalArgumentException("a line that names no process");
                }
                processes.add(new ProcessIdentity(
                        words[0], Long.parseLong(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3])));
                if (isStopped) {
                    stopped.add(processes.get(processes.size() - 1));
                }
            }
            return new RestartNote(file.getFileName().toString(), processes, stopped);
        } catch (IllegalArgumentException e) {
            throw new IOException(
                    file + ", which names released pods, is damaged: " + e.getMessage()
                            + ". Remedy: make sure that no pod of this node is stopped, then remove it",
                    e);
        }
    }
}
