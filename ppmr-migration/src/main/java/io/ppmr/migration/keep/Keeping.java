package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.source.image.ImageName;
import io.ppmr.source.image.ImageTee;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The copy that is wanted of a migration's images, over all its attempts: each attempt begins one again, until one is
 * whole. Owned by the migration's worker.
 */
public final class Keeping implements AutoCloseable {
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
    private static final int ID_CHARACTERS = 8;

    /**
     * The bounds of a copy.
     *
     * @param bufferBytes of memory between the migration and the copy's files
     * @param patience how long a full buffer may hold the migration up, in all
     * @param deadline how long after the migration the files may need to reach the disk
     */
    public record Bounds(int bufferBytes, Duration patience, Duration deadline) {
        /** As a site has them. */
        public static final Bounds USUAL = new Bounds(32 << 20, Duration.ofMillis(500), Duration.ofMinutes(2));
    }

    /**
     * The job and the migration that the images are of.
     *
     * @param migrationId its name
     * @param job the job's name
     * @param checkpointer its name
     * @param user the job's
     */
    public record ImageOrigin(String migrationId, String job, String checkpointer, JobUser user) {}

    /**
     * The wish for a copy.
     *
     * @param directory where copies are kept; empty if none is wanted
     * @param bounds of it
     */
    public record KeepRequest(Optional<Path> directory, Bounds bounds) {
        /** No copy. */
        public static final KeepRequest NONE = new KeepRequest(Optional.empty(), Bounds.USUAL);

        /** A copy in this directory. */
        public static KeepRequest in(Path directory) {
            return new KeepRequest(Optional.of(directory), Bounds.USUAL);
        }
    }

    /**
     * The report of the copy that was wanted of a migration's images.
     *
     * @param kept whether it is there
     * @param directory where it is, or was to be
     * @param bytes of all its files, if it is there
     * @param reason why it is not there; empty if it is
     */
    public record KeptImageReport(boolean kept, String directory, long bytes, String reason) {
        /** For people. */
        public String sentence() {
            return kept ? "a copy of " + bytes + " bytes is kept in " + directory : "no copy is kept: " + reason;
        }
    }

    private final Optional<Path> directory;
    private final Bounds bounds;
    private final ImageOrigin subject;
    private final Path workDirectory;
    private final PeerAuthenticator key;
    /** Volatile for {@link #report}, which any thread may ask for. */
    private volatile KeptImageWriter copy;

    private int attempt;

    /**
     * @param workDirectory of the service, for a note of the copy that is being written
     * @param key of the service, by which {@code ppmr restart} knows the copy again
     */
    public Keeping(KeepRequest wish, ImageOrigin subject, Path workDirectory, PeerAuthenticator key) {
        this.workDirectory = workDirectory;
        this.key = key;
        this.directory = wish.directory();
        this.bounds = wish.bounds();
        this.subject = subject;
    }

    /** An attempt is about to write; where that goes besides. The same for each of its sessions. */
    public ImageTee copyOf(int attemptNumber) {
        if (isWanted(attemptNumber)) {
            return copy;
        }
        if (directory.isEmpty() || (copy != null && copy.isWhole())) {
            return ImageTee.NONE;
        }
        attempt = attemptNumber;
        String name = subject.job().replaceAll("[^A-Za-z0-9._-]", "_") + "-" + TIME.format(Instant.now()) + "-"
                + subject.migrationId()
                        .substring(
                                0, Math.min(ID_CHARACTERS, subject.migrationId().length()))
                + "." + attempt;
        KeptImageNote note = KeptImageNote.of(workDirectory, subject.migrationId(), attempt);
        copy = new KeptImageWriter(
                new KeptImageDirectory(directory.get(), name, note, key), bounds.bufferBytes(), bounds.patience());
        return copy;
    }

    /**
     * Is called when every checkpoint of an attempt reported success and the images are complete.
     *
     * @param originals the processes that each rank was made of
     */
    public void whole(int attemptNumber, List<ImageName> names, Map<Integer, List<ProcessIdentity>> originals) {
        if (copy != null && attempt == attemptNumber) {
            copy.whole(
                    new ImageManifest(
                            version(),
                            subject.job(),
                            subject.checkpointer(),
                            subject.user(),
                            subject.migrationId(),
                            attempt,
                            System.currentTimeMillis(),
                            hostName(),
                            originals,
                            List.of()),
                    names);
        }
    }

    /** Gives up the copy of an attempt, since its content cannot be known for certain. */
    public void lose(int attemptNumber, String reason) {
        if (isWanted(attemptNumber)) {
            copy.lose(reason);
        }
    }

    /** Returns true if a copy of this attempt waits for its end. */
    public boolean isWanted(int attemptNumber) {
        return copy != null && attempt == attemptNumber;
    }

    /** Is called when an attempt is over and its images are no longer written. */
    public void attemptOver(int attemptNumber) {
        if (copy != null && attempt == attemptNumber) {
            copy.close();
        }
    }

    /** Gives the files time to reach the disk. The job runs already; an interrupt ends the waiting. */
    public void await() {
        if (copy != null) {
            try {
                copy.await(bounds.deadline());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                copy.lose("the service was told to end");
            }
        }
    }

    /** Returns the report of the copy, as of now; null if none was wanted. */
    public KeptImageReport report() {
        if (directory.isEmpty()) {
            return null;
        }
        return copy == null
                ? new KeptImageReport(false, directory.get().toString(), 0, "nothing was written")
                : copy.soFar();
    }

    @Override
    public void close() {
        if (copy != null) {
            copy.close();
        }
    }

    private static String version() {
        String version = Keeping.class.getPackage().getImplementationVersion();
        return version == null ? "(built in place)" : version;
    }

    /** Asks no name service: a job is stopped meanwhile. */
    private static String hostName() {
        try {
            return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
        } catch (IOException e) {
            return "unknown";
        }
    }
}
