package io.ppmr.migration.keep;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.os.Folders;
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
 * A note in the service's work directory that a copy is being written, and where: made before the copy's directory,
 * and taken away when that is complete or removed. So what is noted when a service starts was left by a run of it that
 * died. Immutable.
 *
 * @param file the note
 */
public record KeptImageNote(Path file) {
    private static final Logger LOG = LoggerFactory.getLogger(KeptImageNote.class);
    private static final String PREFIX = "keep-";

    /** Returns the note of an attempt of a migration; does not touch the disk. */
    static KeptImageNote of(Path workDirectory, String migrationId, int attempt) {
        return new KeptImageNote(workDirectory.resolve(PREFIX + migrationId + "." + attempt));
    }

    /** All that an earlier run of the service has left. */
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

    /** Returns the migration that the copy is of. */
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
            LOG.warn("the note {} of a copy that is over stays behind: {}", file, e.getMessage());
        }
    }

    /** Removes the incomplete copy, if the service died before it was complete, and the note. Blocks on its disk. */
    public void removeCopy() {
        try {
            String text = Files.readString(file, StandardCharsets.UTF_8);
            // What a crash has torn was followed by no directory.
            if (text.endsWith("\n")) {
                Path partial = Path.of(text.substring(0, text.length() - 1));
                if (!partial.toString().endsWith(KeptImageDirectory.PARTIAL)) {
                    throw new IOException("it names no incomplete copy but " + partial);
                }
                remove(partial);
            }
            Files.delete(file);
        } catch (IOException e) {
            LOG.warn(
                    "migration {}: the incomplete copy of which {} tells stays behind: {}. Nothing restarts from it;"
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
                    "migration {}: the service died while it kept a copy; what there was of it, {}, is removed",
                    migrationId(),
                    partial);
        } else if (!Files.isDirectory(partial.getParent())) {
            throw new IOException(partial.getParent() + " is not there, so " + partial + " is not looked for");
        }
    }
}
