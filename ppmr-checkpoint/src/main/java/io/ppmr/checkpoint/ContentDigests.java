package io.ppmr.checkpoint;

import io.ppmr.checkpoint.files.FileFacts;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Keeps digests of files by their number, length and times, so that a large file is read once and not for each
 * migration. It keeps the most recent ones. Each user has separate digests, because a process of that user has read the
 * files. For any thread.
 */
public final class ContentDigests {
    private static final int MOST = 4096;
    /** A file that was just changed may change again and keep its times. */
    private static final long SETTLED_S = 3;

    private final Map<String, String> known = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
            return size() > MOST;
        }
    };

    /**
     * Returns the digest of a file that has not changed since it was read.
     *
     * @param byId whether a build ID may replace it
     */
    synchronized Optional<String> of(String user, boolean byId, FileFacts file) {
        return Optional.ofNullable(known.get(key(user, byId, file)));
    }

    /** Keeps a digest, unless the file was just changed. */
    synchronized void add(String user, boolean byId, FileFacts file, String content) {
        String[] times = file.changed().split("[ .]", -1);
        long latest = Math.max(Long.parseLong(times[0]), Long.parseLong(times[2]));
        if (latest + SETTLED_S < Instant.now().getEpochSecond()) {
            known.put(key(user, byId, file), content);
        }
    }

    private static String key(String user, boolean byId, FileFacts file) {
        return String.join(
                " ",
                user,
                byId ? "id" : "bytes",
                file.device(),
                file.inode(),
                Long.toString(file.lengthBytes()),
                file.changed());
    }
}
