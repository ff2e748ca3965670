package io.ppmr.daemon.jobs;

/**
 * The full name of a job that a {@link JobSource} found. It includes the user, because two users may have jobs of the
 * same name.
 *
 * @param uid the user
 * @param name the short name
 */
public record JobName(int uid, String name) {
    @Override
    public String toString() {
        return Integer.toUnsignedString(uid) + "/" + name;
    }
}
