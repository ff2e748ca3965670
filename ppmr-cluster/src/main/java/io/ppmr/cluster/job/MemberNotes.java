package io.ppmr.cluster.job;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.Folders;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Stream;

/**
 * The notes of a service about jobs over several nodes, each a file of its journal's directory. Immutable.
 *
 * @param journal the directory of the journal
 */
record MemberNotes(Path journal) {
    private static final String FOLDER = "jobs";
    private static final String PART = ".part";
    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .build();

    private Path file(JobName job) {
        return journal.resolve(FOLDER).resolve(JobKey.of(job));
    }

    /** Reads the note about a job; the empty one if there is none. */
    MemberNote read(JobName job) throws IOException {
        Path file = file(job);
        if (!Files.exists(file)) {
            return MemberNote.NONE;
        }
        try {
            MemberNote note = JSON.readValue(Files.readAllBytes(file), MemberNote.class);
            if (note.id() == null || note.step() == null || note.restartStep() == null) {
                throw new IOException("a field is missing");
            }
            return note;
        } catch (IOException e) {
            throw new IOException(
                    file + " is damaged: " + e.getMessage()
                            + ". Remedy: if no checkpoint or restart of the job is under way, remove it",
                    e);
        }
    }

    /** Lists the jobs that there are notes about, by the names of their records. */
    List<String> keys() throws IOException {
        Path folder = journal.resolve(FOLDER);
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> !name.endsWith(PART))
                    .toList();
        }
    }

    /** Makes a note about a job, if there is none. */
    void keep(JobName job) throws IOException {
        if (!Files.exists(file(job))) {
            write(job, MemberNote.NONE);
        }
    }

    /** Replaces the note about a job. It is on the disk when this returns. */
    void write(JobName job, MemberNote note) throws IOException {
        Path folder = journal.resolve(FOLDER);
        Folders.create(folder, Folders.PRIVATE);
        Path part = folder.resolve(JobKey.of(job) + PART);
        try (FileChannel channel = FileChannel.open(
                part, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.wrap(json(note));
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
        Files.move(part, file(job), StandardCopyOption.ATOMIC_MOVE);
        try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    private static byte[] json(MemberNote note) {
        try {
            return JSON.writeValueAsBytes(note);
        } catch (JacksonException e) {
            throw new IllegalStateException("a note of plain values cannot be written", e);
        }
    }
}
