package io.ppmr.checkpoint;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** The ordinary user that a job runs as, by number. */
public record JobUser(int uid, int gid) {
    /** Returns the user that this service runs as. That is root, unless only its own user's jobs are moved. */
    public static JobUser ofService() {
        try {
            Map<String, Object> self = Files.readAttributes(Path.of("/proc/self"), "unix:uid,gid");
            return new JobUser((int) self.get("uid"), (int) self.get("gid"));
        } catch (IOException e) {
            throw new UncheckedIOException("this service's user cannot be read from /proc/self; is /proc mounted?", e);
        }
    }
}
