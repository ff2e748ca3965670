package io.ppmr.daemon.config.file;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.linux.Accounts;
import java.io.IOException;
import java.util.Optional;

/** Users and groups of a configuration, which may be names or numbers. */
public final class JobUsers {
    private JobUsers() {}

    /**
     * Returns the numbers of a user and a group.
     *
     * @param group the group, or null for the user's primary group
     */
    public static JobUser find(Object user, Object group) throws BadValueException {
        if (user instanceof Long number && group != null) {
            return new JobUser(number.intValue(), group(group));
        }
        Accounts.User known = known(user);
        return new JobUser(known.uid(), group == null ? known.gid() : group(group));
    }

    /** Returns the number of a user. */
    public static int user(Object user) throws BadValueException {
        return user instanceof Long number ? number.intValue() : known(user).uid();
    }

    private static Accounts.User known(Object user) throws BadValueException {
        Optional<Accounts.User> found;
        try {
            found = user instanceof Long number ? Accounts.user(number.intValue()) : Accounts.user(user.toString());
        } catch (IOException e) {
            throw new BadValueException(e.getMessage() + ": give user and group by number");
        }
        if (found.isEmpty() && user instanceof Long) {
            throw new BadValueException(
                    "user " + user + " is not in this node's user database, so its group is not known: set group, too");
        }
        return found.orElseThrow(() -> unknown("user", user));
    }

    /** Returns the number of a group. */
    public static int group(Object group) throws BadValueException {
        if (group instanceof Long number) {
            return number.intValue();
        }
        try {
            return Accounts.group(group.toString()).orElseThrow(() -> unknown("group", group));
        } catch (IOException e) {
            throw new BadValueException(e.getMessage() + ": give the group by number");
        }
    }

    private static BadValueException unknown(String kind, Object name) {
        return new BadValueException(
                "there is no " + kind + " '" + name + "' on this node: correct it, or give its number");
    }
}
