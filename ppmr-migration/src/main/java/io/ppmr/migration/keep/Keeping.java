package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.linux.ProcessIdentity;
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
 * The requested copy of a migration's images, over all its attempts. Each attempt begins a new copy, until one is
 * complete. Owned by the migration's worker.
 */
public final class Keeping implements AutoCloseable {
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
    private static final int ID_CHARACTERS = 8;

    /**
     * The bounds of a copy.
     *
     * @param bufferBytes memory between the migration and the copy's files
     * @param patience total time for which a full buffer may delay the migration
     * @param deadline time after the migration in which the files must reach the disk
     */
    public record Bounds(int bufferBytes, Duration patience, Duration deadline) {
        /** The production bounds. */
        public static final Bounds USUAL = new Bounds(32 << 20, Duration.ofMillis(500), Duration.ofMinutes(2));
    }

    /**
     * The job and the migration that the images belong to.
     *
     * @param migrationId the migration's name
     * @param job the job's name
     * @param checkpointer the checkpointer's name
     * @param user the job's user
     */
    public record ImageOrigin(String migrationId, String job, String checkpointer, JobUser user) {}

    /**
     * The request for a copy.
     *
     * @param directory directory of the copies, or empty if no copy is requested
     * @param bounds bounds of the copy
     */
    public record KeepRequest(Optional<Path> directory, Bounds bounds) {
        /** No copy. */
        public static final KeepRequest NONE = new KeepRequest(Optional.empty(), Bounds.USUAL);

        /** Returns the request for a copy in this directory. */
        public static KeepRequest in(Path directory) {
            return new KeepRequest(Optional.of(directory), Bounds.USUAL);
        }
    }

    /**
     * The report about the requested copy of a migration's images.
     *
     * @param kept whether the copy exists
     * @param directory its place
     * @param bytes size of all its files, if it exists
     * @param reason why it does not exist, or empty if it does
     */
    public record KeptImageReport(boolean kept, String directory, long bytes, String reason) {
        /** Describes the copy for people. */
        public String sentence() {
            return kept ? "a copy of " + bytes + " bytes is kept in " + directory : "no copy is kept: " + reason;
        }
    }

    private final Optional<Path> directory;
    private final Bounds bounds;
    private final ImageOrigin subject;
    private final Path workDirectory;
    private final PeerAuthenticator key;
    /** Volatile for {@link #report}, which any thread may call. */
    private volatile KeptImageWriter copy;

    private int attempt;

    /**
     * @param workDirectory directory of the service, for a note of the copy that is being written
     *
     * @param key key of the service, which authenticates the copy for {@code ppmr restart}
     */
    public Keeping(KeepRequest request, ImageOrigin subject, Path workDirectory, PeerAuthenticator key) {
        this.workDirectory = workDirectory;
        this.key = key;
        this.directory = request.directory();
        this.bounds = request.bounds();
        this.subject = subject;
    }

    /** Returns the tee for the images of an attempt that begins. Each of its sessions gets the same one. */
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
     * Completes the copy. Called when every checkpoint of an attempt reported success and the images are complete.
     *
     * @param originals the original processes of each rank
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

    /** Drops the copy of an attempt, because its content is uncertain. */
    public void lose(int attemptNumber, String reason) {
        if (isWanted(attemptNumber)) {
            copy.lose(reason);
        }
    }

    /** Returns true if a copy of this attempt waits for its end. */
    public boolean isWanted(int attemptNumber) {
        return copy != null && attempt == attemptNumber;
    }

    /** Notes that an attempt is over and its images are no longer written. */
    public void attemptOver(int attemptNumber) {
        if (copy != null && attempt == attemptNumber) {
            copy.close();
        }
    }

    /** Waits until the files reach the disk. The job runs already. An interrupt ends the wait. */
    public void await() {
        if (copy != null) {
            try {
                copy.await(bounds.deadline());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                copy.lose("the service is ending");
            }
        }
    }

    /** Returns the present report of the copy, or null if none was requested. */
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

    /** Returns the host name without a name service, because the job is stopped now. */
    private static String hostName() {
        try {
            return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
        } catch (IOException e) {
            return "unknown";
        }
    }
}
