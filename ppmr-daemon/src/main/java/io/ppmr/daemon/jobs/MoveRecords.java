package io.ppmr.daemon.jobs;

import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What became of jobs that were announced, a file each in a directory that only the service writes and all may read:
 * whoever waits for a rank's process learns there that it has not died but moved. The first line is {@code underway},
 * {@code committed TARGET}, {@code in-doubt TARGET}, {@code rolled-back}, {@code refused} or {@code failed}; after it,
 * a line {@code rank N PID,PID} for each rank, with the PIDs as the target sees them.
 *
 * <p>Used by the thread of the migration. A record that cannot be written is logged: the migration matters more.
 */
public final class MoveRecords {
    private static final Logger LOG = LoggerFactory.getLogger(MoveRecords.class);
    private static final String UNKNOWN = "unknown";
    private static final Duration KEPT = Duration.ofDays(1);

    private final Optional<Path> directory;

    /** @param directory where they go; empty if none are written */
    public MoveRecords(Optional<Path> directory) {
        this.directory = directory;
    }

    /** A migration begins. To be called before anything is done to the job's processes. */
    public void begin(String job) {
        directory.ifPresent(moves -> {
            removeOld(moves);
            write(moves, job, "underway\n");
        });
    }

    /**
     * It has ended.
     *
     * @param targets those that it was to go to; empty where the configuration's were asked
     */
    public void end(String job, MigrationReport report, List<InetSocketAddress> targets) {
        boolean gone = report.outcome() == MigrationReport.Outcome.COMMITTED
                || report.outcome() == MigrationReport.Outcome.IN_DOUBT;
        String first =
                report.outcome().name().toLowerCase(Locale.ROOT).replace('_', '-') + (gone ? " " + name(targets) : "");
        String ranks = report.ranks().stream()
                .map(rank -> "rank " + rank.rank() + " "
                        + rank.pids().stream().map(String::valueOf).collect(Collectors.joining(",")) + "\n")
                .collect(Collectors.joining());
        directory.ifPresent(moves -> write(moves, job, first + "\n" + ranks));
    }

    private static String name(List<InetSocketAddress> targets) {
        return targets.size() == 1
                ? targets.get(0).getHostString() + ":" + targets.get(0).getPort()
                : UNKNOWN;
    }

    /** It could not begin, or broke in a way that no report could be made of. */
    public void fail(String job) {
        directory.ifPresent(moves -> write(moves, job, "failed\n"));
    }

    private static void write(Path moves, String job, String text) {
        Path part = moves.resolve("." + job + ".part");
        try {
            Files.writeString(part, text, StandardCharsets.UTF_8);
            Files.setPosixFilePermissions(part, PosixFilePermissions.fromString("rw-r--r--"));
            Files.move(part, moves.resolve(job), StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException e) {
            LOG.error("{} is on a filesystem without rename: name another folder for announcements", moves, e);
        } catch (IOException e) {
            LOG.error("the record of job {} cannot be written to {}: {}", job, moves, e.getMessage());
        }
    }

    private static void removeOld(Path moves) {
        Instant oldest = Instant.now().minus(KEPT);
        try (DirectoryStream<Path> records = Files.newDirectoryStream(moves)) {
            for (Path record : records) {
                if (Files.getLastModifiedTime(record).toInstant().isBefore(oldest)) {
                    Files.deleteIfExists(record);
                }
            }
        } catch (IOException e) {
            LOG.warn("old records in {} cannot be removed: {}", moves, e.getMessage());
        }
    }
}
