package io.ppmr.slurm;

import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.Folders;
import io.ppmr.linux.HostPort;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Records of the moves of announced jobs, a file each in a directory that only the service writes and all users may
 * read. The record shows a program that waits for a rank's process that the process was moved and did not die. The
 * first line is {@code underway}, {@code committed TARGET}, {@code in-doubt TARGET}, {@code rolled-back},
 * {@code refused} or {@code failed}. A line {@code rank N PID,PID} for each rank follows, with the PIDs in the target's
 * namespace. The records of each user are in a folder {@code UID}, so jobs of different users can have the same name.
 *
 * <p>Used by the thread of the migration. A record that cannot be written is logged, and the migration continues.
 *
 * @param directory the directory of the records
 */
public record MoveRecords(Path directory) {
    private static final Logger LOG = LoggerFactory.getLogger(MoveRecords.class);
    private static final String UNKNOWN = "unknown";
    private static final Duration KEPT = Duration.ofDays(1);
    /** Maximum number of records of one user. */
    static final int MAX_RECORDS = 1024;

    /** Records that a migration begins. Call it before the migration touches the job's processes. */
    public void begin(JobName job) {
        removeOld(directory, job);
        write(directory, job, "underway\n");
    }

    /**
     * Records the end of a migration.
     *
     * @param targets the targets of the order, or empty for the configured ones
     */
    public void end(JobName job, MigrationReport report, List<InetSocketAddress> targets) {
        boolean gone = report.outcome() == MigrationReport.Outcome.COMMITTED
                || report.outcome() == MigrationReport.Outcome.IN_DOUBT;
        String first =
                report.outcome().name().toLowerCase(Locale.ROOT).replace('_', '-') + (gone ? " " + name(targets) : "");
        String ranks = report.ranks().stream()
                .map(rank -> "rank " + rank.rank() + " "
                        + rank.pids().stream().map(String::valueOf).collect(Collectors.joining(",")) + "\n")
                .collect(Collectors.joining());
        write(directory, job, first + "\n" + ranks);
    }

    private static String name(List<InetSocketAddress> targets) {
        return targets.size() == 1 ? HostPort.participant(targets.get(0)) : UNKNOWN;
    }

    /** Records that a migration could not begin, or ended without a report. */
    public void fail(JobName job) {
        write(directory, job, "failed\n");
    }

    private static void write(Path moves, JobName job, String text) {
        Path folder = moves.resolve(Integer.toUnsignedString(job.uid()));
        Path part = folder.resolve("." + job.name() + ".part");
        try {
            Folders.create(folder, Folders.PASSABLE);
            Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
            Files.writeString(part, text, StandardCharsets.UTF_8);
            Files.setPosixFilePermissions(part, PosixFilePermissions.fromString("rw-r--r--"));
            Files.move(part, folder.resolve(job.name()), StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException e) {
            LOG.error("{} is on a filesystem without rename: name another folder for announcements", moves, e);
        } catch (IOException e) {
            LOG.error("the record of job {} cannot be written to {}: {}", job, moves, e.getMessage());
        }
    }

    /** Removes records that are older than a day, and the oldest records of a user with too many. */
    private static void removeOld(Path moves, JobName job) {
        Path folder = moves.resolve(Integer.toUnsignedString(job.uid()));
        if (!Files.isDirectory(folder)) {
            return;
        }
        Instant oldest = Instant.now().minus(KEPT);
        Map<Path, Instant> kept = new HashMap<>();
        try (DirectoryStream<Path> records = Files.newDirectoryStream(folder)) {
            for (Path record : records) {
                Instant written = Files.getLastModifiedTime(record).toInstant();
                if (written.isBefore(oldest)) {
                    Files.deleteIfExists(record);
                } else {
                    kept.put(record, written);
                }
            }
            List<Path> inOrder = kept.keySet().stream()
                    .sorted(Comparator.comparing(kept::get))
                    .toList();
            for (Path record : inOrder.subList(0, Math.max(0, inOrder.size() - MAX_RECORDS + 1))) {
                Files.deleteIfExists(record);
            }
        } catch (IOException | DirectoryIteratorException e) {
            LOG.warn("old records in {} cannot be removed: {}", folder, e.getMessage());
        }
    }
}
