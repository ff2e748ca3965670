package io.ppmr.migration.source;

import io.ppmr.linux.Folders;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A note on the disk about a checkpoint of a job's pods: it is there from before the first pod is held until all run,
 * and
 * no incomplete image is left. The next run of a service that died continues these pods, so the checkpoint is void.
 * Immutable.
 *
 * @param id the name by which the pods are held
 * @param set the set that is written
 * @param images the directory of the job's checkpoints, its user and its name
 * @param pods the pods by rank
 */
record CheckpointNote(String id, String set, ImagePlace images, Map<Integer, HeldMember> pods) {
    private static final Logger LOG = LoggerFactory.getLogger(CheckpointNote.class);
    private static final String FOLDER = "checkpoints";
    private static final String PART = ".part";
    private static final String FIRST_LINE = "ppmr checkpoint 1";

    /** The place of a job's images. */
    record ImagePlace(String directory, int uid, String job) {}

    /**
     * A pod that is held.
     *
     * @param name its name
     * @param processes its processes, the root first
     * @param stopped those that the job itself had stopped
     */
    record HeldMember(String name, List<ProcessIdentity> processes, List<ProcessIdentity> stopped) {
        HeldMember {
            processes = List.copyOf(processes);
            stopped = List.copyOf(stopped);
        }
    }

    CheckpointNote {
        pods = Map.copyOf(pods);
    }

    /** Returns it for pods that run again. The rest are their images. */
    CheckpointNote continued() {
        Map<Integer, HeldMember> running = new TreeMap<>();
        pods.forEach((rank, pod) -> running.put(rank, new HeldMember(pod.name(), List.of(), List.of())));
        return new CheckpointNote(id, set, images, running);
    }

    /** Returns true if the pods run again, so that they must not be continued once more. */
    boolean isContinued() {
        return pods.values().stream().allMatch(pod -> pod.processes().isEmpty());
    }

    /** Writes it. It is on the disk when this returns. */
    void write(Path journal) throws IOException {
        StringBuilder text = new StringBuilder(FIRST_LINE).append('\n');
        line(text, "set", set);
        line(text, "images", images.directory(), Integer.toString(images.uid()), images.job());
        new TreeMap<>(pods).forEach((rank, pod) -> {
            line(text, "pod", Integer.toString(rank), pod.name());
            pod.processes().forEach(process -> line(text, "process", words(process)));
            pod.stopped().forEach(process -> line(text, "stopped", words(process)));
        });
        Path folder = journal.resolve(FOLDER);
        Folders.create(folder, Folders.PRIVATE);
        Path part = folder.resolve(id + PART);
        try (FileChannel channel = FileChannel.open(
                part, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = StandardCharsets.UTF_8.encode(text.toString());
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
        Files.move(part, folder.resolve(id), StandardCopyOption.ATOMIC_MOVE);
        sync(folder);
    }

    private static void sync(Path folder) throws IOException {
        try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    private static String[] words(ProcessIdentity process) {
        return new String[] {
            process.bootId(),
            Long.toString(process.pidNamespace()),
            Integer.toString(process.pid()),
            Long.toString(process.startTimeTicks())
        };
    }

    private static void line(StringBuilder text, String kind, String... words) {
        text.append(kind);
        for (String word : words) {
            text.append(' ').append(URLEncoder.encode(word, StandardCharsets.UTF_8));
        }
        text.append('\n');
    }

    /** Removes it. */
    void forget(Path journal) throws IOException {
        Path folder = journal.resolve(FOLDER);
        if (Files.deleteIfExists(folder.resolve(id))) {
            sync(folder);
        }
    }

    /** Reads all notes that an earlier run of the service has left, and removes incomplete ones: they held nothing. */
    static List<CheckpointNote> left(Path journal) throws IOException {
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
    static List<CheckpointNote> in(Path journal) throws IOException {
        List<CheckpointNote> all = new ArrayList<>();
        Path folder = journal.resolve(FOLDER);
        if (!Files.isDirectory(folder)) {
            return all;
        }
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
            for (Path file : files) {
                if (!file.getFileName().toString().endsWith(PART)) {
                    readOrReport(file).ifPresent(all::add);
                }
            }
        }
        return all;
    }

    /** One damaged note must not keep the pods of others held, nor the service from its start. */
    private static Optional<CheckpointNote> readOrReport(Path file) {
        try {
            return Optional.of(read(file));
        } catch (IOException e) {
            LOG.error("{}", e.getMessage());
            return Optional.empty();
        }
    }

    /** Reads a note. Throws, with the remedy, if it is damaged. */
    static CheckpointNote read(Path file) throws IOException {
        List<String> lines = Files.readAllLines(file);
        try {
            if (!lines.get(0).equals(FIRST_LINE)) {
                throw new IllegalArgumentException("its first line");
            }
            String set = "";
            ImagePlace images = null;
            Map<Integer, HeldMember> pods = new TreeMap<>();
            int rank = -1;
            for (String line : lines.subList(1, lines.size())) {
                List<String> w = Arrays.stream(line.split(" ", -1))
                        .map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8))
                        .toList();
                switch (w.get(0)) {
                    case "set" -> set = w.get(1);
                    case "images" -> images = new ImagePlace(w.get(1), Integer.parseInt(w.get(2)), w.get(3));
                    case "pod" -> {
                        rank = Integer.parseInt(w.get(1));
                        pods.put(rank, new HeldMember(w.get(2), List.of(), List.of()));
                    }
                    case "process" -> {
                        HeldMember pod = pods.get(rank);
                        pods.put(rank, new HeldMember(pod.name(), with(pod.processes(), w), pod.stopped()));
                    }
                    case "stopped" -> {
                        HeldMember pod = pods.get(rank);
                        pods.put(rank, new HeldMember(pod.name(), pod.processes(), with(pod.stopped(), w)));
                    }
                    default -> throw new IllegalArgumentException("the line '" + w.get(0) + "'");
                }
            }
            if (images == null || pods.isEmpty() || set.isEmpty()) {
                throw new IllegalArgumentException("a missing line");
            }
            return new CheckpointNote(file.getFileName().toString(), set, images, pods);
        } catch (IllegalArgumentException | IndexOutOfBoundsException | NullPointerException e) {
            throw new IOException(
                    file + ", which names pods that are held for a checkpoint, is damaged: " + e.getMessage()
                            + ". Remedy: make sure that no pod of this node is stopped, then remove it",
                    e);
        }
    }

    private static List<ProcessIdentity> with(List<ProcessIdentity> known, List<String> words) {
        List<ProcessIdentity> all = new ArrayList<>(known);
        all.add(new ProcessIdentity(
                words.get(1),
                Long.parseLong(words.get(2)),
                Integer.parseInt(words.get(3)),
                Long.parseLong(words.get(4))));
        return all;
    }
}
