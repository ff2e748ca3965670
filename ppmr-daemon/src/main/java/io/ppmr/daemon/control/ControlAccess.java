package io.ppmr.daemon.control;

import java.util.Optional;
import java.util.Set;
import java.util.function.Function;

/**
 * The access rules of a control socket. Root and the service's own user may do everything. The configuration can allow
 * a group to do so, and all users to read the status.
 *
 * @param group the group whose members may do everything
 * @param publicStatus whether all users may read the status
 * @param jobOwners whether users may move the jobs that they announced
 */
public record ControlAccess(Optional<ControlGroup> group, boolean publicStatus, boolean jobOwners) {
    private static final String OWNER_ONLY = "rw-------";
    private static final String GROUP_TOO = "rw-rw----";
    private static final String ALL = "rw-rw-rw-";

    /** Creates the rules of a service without announced jobs. */
    public ControlAccess(Optional<ControlGroup> group, boolean publicStatus) {
        this(group, publicStatus, false);
    }

    /** Returns the same rules, except that owners may also move their announced jobs. */
    public ControlAccess withJobOwners() {
        return new ControlAccess(group, publicStatus, true);
    }

    /** The rules that allow only root and the service's own user. */
    public static final ControlAccess OWNER = new ControlAccess(Optional.empty(), false);

    /** A group by name and number, because credentials(7) may be either. */
    public record ControlGroup(String name, int gid) {}

    /** The rights of a caller. */
    public enum Right {
        NOTHING,
        STATUS,
        CONTROL
    }

    /**
     * Returns the right of a caller.
     *
     * @param user the caller's user, by SO_PEERCRED of unix(7)
     * @param userGroup its effective group
     * @param ownUser the service's user
     * @param groups looks up all groups of a user
     */
    Right of(String user, String userGroup, String ownUser, Function<String, Set<Integer>> groups) {
        if (isOwner(user, ownUser) || (group.isPresent() && belongs(user, userGroup, group.get(), groups))) {
            return Right.CONTROL;
        }
        return publicStatus ? Right.STATUS : Right.NOTHING;
    }

    /** Returns true if a caller is root or the service's own user, which may do everything and are always admitted. */
    static boolean isOwner(String user, String ownUser) {
        return user.equals("root") || user.equals("0") || user.equals(ownUser);
    }

    private static boolean belongs(
            String user, String userGroup, ControlGroup group, Function<String, Set<Integer>> groups) {
        return userGroup.equals(group.name())
                || userGroup.equals(String.valueOf(group.gid()))
                || groups.apply(user).contains(group.gid());
    }

    /** Returns the socket's mode: the kernel refuses the users without any right. */
    String socketMode() {
        return publicStatus || jobOwners ? ALL : group.isPresent() ? GROUP_TOO : OWNER_ONLY;
    }
}
