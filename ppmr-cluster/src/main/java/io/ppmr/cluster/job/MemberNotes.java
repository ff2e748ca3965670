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
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The notes of a service about jobs over several nodes, each a file of its journal's directory. Immutable.
 *
 * @param journal the directory of the journal
 */
record MemberNotes(Path journal) {
    private static final String FOLDER = "jobs";
    private static final String PART = ".part";
    private static final String MOVE = ".move";
    private static final String END = ".end";
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

    private Path moveFile(JobName job) {
        return journal.resolve(FOLDER).resolve(JobKey.of(job) + MOVE);
    }

    /** Reads the note about a migration of the job that no controller has noted. */
    Optional<MoveNote> move(JobName job) throws IOException {
        Path file = moveFile(job);
        if (!Files.exists(file)) {
            return Optional.empty();
        }
        try {
            MoveNote note = JSON.readValue(Files.readAllBytes(file), MoveNote.class);
            if (note.id() == null || note.job() == null || note.to() == null) {
                throw new IOException("a field is missing");
            }
            return Optional.of(note);
        } catch (IOException e) {
            throw new IOException(
                    file + " is damaged: " + e.getMessage()
                            + ". Remedy: if no pod of the job runs on the node to which it was moved, remove it",
                    e);
        }
    }

    /** Notes a migration that no controller has noted. The note is on the disk when this returns. */
    void writeMove(JobName job, MoveNote note) throws IOException {
        write(moveFile(job), note);
    }

    /** Removes the note about a migration of the job. */
    void removeMove(JobName job) throws IOException {
        if (Files.deleteIfExists(moveFile(job))) {
            sync();
        }
    }

    private Path endFile(JobName job) {
        return journal.resolve(FOLDER).resolve(JobKey.of(job) + END);
    }

    /** Reads the note about the last recovery for which the job's pods were ended; the empty one if there is none. */
    EndNote end(JobName job) throws IOException {
        Path file = endFile(job);
        if (!Files.exists(file)) {
            return EndNote.NONE;
        }
        try {
            EndNote note = JSON.readValue(Files.readAllBytes(file), EndNote.class);
            if (note.id() == null) {
                throw new IOException("a field is missing");
            }
            return note;
        } catch (IOException e) {
            throw new IOException(
                    file + " is damaged: " + e.getMessage() + ". Remedy: if no recovery of the job is under way, remove"
                            + " it",
                    e);
        }
    }

    /** Notes that the pods of a job were ended. The note is on the disk when this returns. */
    void writeEnd(JobName job, EndNote note) throws IOException {
        write(endFile(job), note);
    }

    /** Lists the jobs that there are notes about, by the names of their records. */
    Set<String> keys() throws IOException {
        Path folder = journal.resolve(FOLDER);
        if (!Files.isDirectory(folder)) {
            return Set.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> !name.endsWith(PART))
                    .map(name -> without(without(name, MOVE), END))
                    .collect(Collectors.toSet());
        }
    }

    private static String without(String name, String ending) {
        return name.endsWith(ending) ? name.substring(0, name.length() - ending.length()) : name;
    }

    /** Makes a note about a job, if there is none. */
    void keep(JobName job) throws IOException {
        if (!Files.exists(file(job))) {
            write(job, MemberNote.NONE);
        }
    }

    /** Replaces the note about a job. It is on the disk when this returns. */
    void write(JobName job, MemberNote note) throws IOException {
        write(file(job), note);
    }

    private void write(Path file, Object note) throws IOException {
        Path folder = journal.resolve(FOLDER);
        Folders.create(folder, Folders.PRIVATE);
        Path part = folder.resolve(file.getFileName() + PART);
        try (FileChannel channel = FileChannel.open(
                part, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.wrap(json(note));
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
        sync();
    }

    private void sync() throws IOException {
        try (FileChannel directory = FileChannel.open(journal.resolve(FOLDER), StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    private static byte[] json(Object note) {
        try {
            return JSON.writeValueAsBytes(note);
        } catch (JacksonException e) {
            throw new IllegalStateException("a note of plain values cannot be written", e);
        }
    }
}
