package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the logs of failed commands when the folder of their attempt is removed:
 * {@code WORK/.failed/ATTEMPT. rank-N.NAME}, only for root. It keeps the last ten attempts and 16 MiB, and only the end
 * of a long log. For any thread.
 */
final class FailedLogs {
    private static final Logger LOG = LoggerFactory.getLogger(FailedLogs.class);
    private static final String FOLDER = ".failed";
    private static final int MOST_ATTEMPTS = 10;
    private static final int MOST_BYTES = 1 << 20;
    private static final long MOST_BYTES_IN_ALL = 16L << 20;

    private FailedLogs() {}

    /**
     * Keeps the end of a log.
     *
     * @param log output of a command, which may be in a user's folder
     * @param workDirectory directory of the rank, in the folder of the attempt
     * @return the kept file; the log itself if it could not be kept
     */
    static synchronized Path keep(Path log, Path workDirectory) {
        Path attempt = workDirectory.getParent();
        Path work = attempt == null ? null : attempt.getParent();
        if (work == null) {
            return log;
        }
        try {
            Optional<String> end = UserPath.tail(log, MOST_BYTES);
            if (end.isEmpty()) {
                return log;
            }
            Path folder = work.resolve(FOLDER);
            if (!Files.isDirectory(folder)) {
                Files.createDirectory(
                        folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            }
            Path kept =
                    folder.resolve(attempt.getFileName() + "." + workDirectory.getFileName() + "." + log.getFileName());
            Files.writeString(kept, end.get(), StandardCharsets.UTF_8);
            prune(folder);
            return kept;
        } catch (IOException e) {
            LOG.warn("{} could not be kept: {}", log, e.toString());
            return log;
        }
    }

    /** A kept file. */
    private record Kept(Path file, long bytes, long modifiedMs) {
        /** Returns the attempt, which is the part of the name before the rank. */
        String attempt() {
            String name = file.getFileName().toString();
            int rank = name.indexOf(".rank-");
            return rank < 0 ? name : name.substring(0, rank);
        }
    }

    private static void prune(Path folder) throws IOException {
        List<Kept> all = new ArrayList<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                all.add(new Kept(
                        file, Files.size(file), Files.getLastModifiedTime(file).toMillis()));
            }
        }
        all.sort(Comparator.comparingLong(Kept::modifiedMs).reversed());
        Set<String> attempts = new HashSet<>();
        long bytes = 0;
        for (Kept one : all) {
            attempts.add(one.attempt());
            bytes += one.bytes();
            if (attempts.size() > MOST_ATTEMPTS || bytes > MOST_BYTES_IN_ALL) {
                Files.deleteIfExists(one.file());
            }
        }
    }
}
