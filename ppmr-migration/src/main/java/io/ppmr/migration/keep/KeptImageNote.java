package io.ppmr.migration.keep;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.Folders;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A note in the service's work directory that names a copy which is being written. It is made before the copy's
 * directory, and removed after that is complete or removed. A note that exists when a service starts was left by a run
 * that died. Immutable.
 *
 * @param file the note
 */
public record KeptImageNote(Path file) {
    private static final Logger LOG = LoggerFactory.getLogger(KeptImageNote.class);
    private static final String PREFIX = "keep-";

    /** Returns the note of an attempt of a migration, without access to the disk. */
    static KeptImageNote of(Path workDirectory, String migrationId, int attempt) {
        return new KeptImageNote(workDirectory.resolve(PREFIX + migrationId + "." + attempt));
    }

    /** Lists all notes that an earlier run of the service left. */
    public static List<KeptImageNote> left(Path workDirectory) throws IOException {
        if (!Files.isDirectory(workDirectory)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(workDirectory)) {
            List<KeptImageNote> notes = new ArrayList<>();
            files.filter(file -> file.getFileName().toString().startsWith(PREFIX))
                    .filter(file -> file.getFileName().toString().lastIndexOf('.') > PREFIX.length())
                    .forEach(file -> notes.add(new KeptImageNote(file)));
            return notes;
        }
    }

    /** Returns the migration that the copy belongs to. */
    public String migrationId() {
        String name = file.getFileName().toString();
        return name.substring(PREFIX.length(), name.lastIndexOf('.'));
    }

    void write(Path partial) throws IOException {
        Folders.create(file.getParent(), Folders.PASSABLE);
        Files.writeString(file, partial.toAbsolutePath() + "\n");
    }

    void forget() {
        try {
            Files.deleteIfExists(file);
        } catch (IOException e) {
            LOG.warn("note {} of an ended copy could not be removed: {}", file, e.getMessage());
        }
    }

    /** Removes the note, and the copy if the service died before it was complete. Blocks on its disk. */
    public void removeCopy() {
        try {
            String text = Files.readString(file, StandardCharsets.UTF_8);
            // If a crash tore the note, the directory was not made.
            if (text.endsWith("\n")) {
                Path partial = Path.of(text.substring(0, text.length() - 1));
                if (!partial.toString().endsWith(KeptImageDirectory.PARTIAL)) {
                    throw new IOException("it does not name an incomplete copy: " + partial);
                }
                remove(partial);
            }
            Files.delete(file);
        } catch (IOException e) {
            LOG.warn(
                    "migration {}: the incomplete copy of note {} could not be removed: {}. Nothing restarts from it;"
                            + " the next start of the service tries again",
                    migrationId(),
                    file,
                    e.toString());
        }
    }

    private void remove(Path partial) throws IOException {
        if (Files.isDirectory(partial, LinkOption.NOFOLLOW_LINKS)) {
            WorkDirectories.remove(partial);
            LOG.warn(
                    "migration {}: the service died while it kept a copy; removing its incomplete copy {}",
                    migrationId(),
                    partial);
        } else if (!Files.isDirectory(partial.getParent())) {
            throw new IOException(partial.getParent() + " does not exist, so " + partial + " was not removed");
        }
    }
}
