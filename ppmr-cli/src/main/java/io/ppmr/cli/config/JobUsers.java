package io.ppmr.cli.config;

import io.ppmr.checkpoint.JobUser;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** Finds users and groups by way of getent(1), which also asks the site's directory service. */
final class JobUsers {
    private static final int FIELD_ID = 2;
    private static final int FIELD_GROUP = 3;
    private static final long LIMIT_S = 10;

    private JobUsers() {}

    /**
     * The user and group by their numbers.
     *
     * @param group null for the user's own
     */
    static JobUser find(Object user, Object group) throws BadValueException {
        Optional<String[]> entry = user instanceof Long && group != null ? Optional.empty() : entry("passwd", user);
        int uid = user instanceof Long number ? number.intValue() : id(entry, "user", user, FIELD_ID);
        if (group instanceof Long number) {
            return new JobUser(uid, number.intValue());
        }
        return new JobUser(
                uid,
                group == null
                        ? id(entry, "user", user, FIELD_GROUP)
                        : id(entry("group", group), "group", group, FIELD_ID));
    }

    /** A user's number. */
    static int user(Object user) throws BadValueException {
        return user instanceof Long number ? number.intValue() : id(entry("passwd", user), "user", user, FIELD_ID);
    }

    /** A group's number. */
    static int group(Object group) throws BadValueException {
        return group instanceof Long number ? number.intValue() : id(entry("group", group), "group", group, FIELD_ID);
    }

    private static int id(Optional<String[]> entry, String kind, Object name, int field) throws BadValueException {
        if (entry.isEmpty() && name instanceof Long) {
            throw new BadValueException(
                    "user " + name + " is not in this node's user database, so its group is not known: set group, too");
        }
        if (entry.isEmpty()) {
            throw new BadValueException(
                    "there is no " + kind + " '" + name + "' on this node: correct it, or give its number");
        }
        return Integer.parseInt(entry.get()[field]);
    }

    private static Optional<String[]> entry(String database, Object name) throws BadValueException {
        try {
            Process getent = new ProcessBuilder("getent", database, name.toString())
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            getent.getOutputStream().close();
            if (!getent.waitFor(LIMIT_S, TimeUnit.SECONDS)) {
                getent.destroyForcibly();
                throw new BadValueException("the user database does not answer (getent " + database + " " + name
                        + "): give user and group by number");
            }
            String line = new String(getent.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
            String[] fields = line.split(":", -1);
            return getent.exitValue() == 0 && fields.length > FIELD_ID ? Optional.of(fields) : Optional.empty();
        } catch (IOException e) {
            throw new BadValueException("cannot be looked up (getent: " + e.getMessage() + "): give the number");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new BadValueException("was not looked up: interrupted");
        }
    }
}
