package io.ppmr.daemon.jobs;

/**
 * Names a job that a {@link JobSource} found: by its user, too, since two users may call theirs by the same name.
 *
 * @param uid whose
 * @param name as the user calls it
 */
public record JobName(int uid, String name) {
    @Override
    public String toString() {
        return Integer.toUnsignedString(uid) + "/" + name;
    }
}
