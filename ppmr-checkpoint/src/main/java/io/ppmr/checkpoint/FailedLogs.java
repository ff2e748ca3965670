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
 * Keeps the logs of commands that failed when the folder of their attempt is removed: {@code WORK/.failed/ATTEMPT.
 * rank-N.NAME}, for root alone. The last ten attempts stay, and 16 MiB in all; of a long log the end. For any thread.
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
     * @param log what a command has written, which may lie in a user's folder
     * @param workDirectory of the rank, in the folder of the attempt
     * @return where it is kept; the log itself where it could not be kept
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
            LOG.warn("{} is not kept: {}", log, e.toString());
            return log;
        }
    }

    /** A file that is kept. */
    private record Kept(Path file, long bytes, long modifiedMs) {
        /** The attempt is what stands before the rank in the name. */
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
