package io.ppmr.daemon.control;

import java.util.Optional;
import java.util.Set;
import java.util.function.Function;

/**
 * The access rules of a control socket. Root and the service's own user may do everything; beyond them a group may, and
 * everybody may read the status, where the configuration says so.
 *
 * @param group whose members may do everything
 * @param publicStatus whether others may read the status
 * @param jobOwners whether others may have those jobs moved that they have announced
 */
public record ControlAccess(Optional<ControlGroup> group, boolean publicStatus, boolean jobOwners) {
    private static final String OWNER_ONLY = "rw-------";
    private static final String GROUP_TOO = "rw-rw----";
    private static final String ALL = "rw-rw-rw-";

    /** For a service whose jobs are all in its configuration. */
    public ControlAccess(Optional<ControlGroup> group, boolean publicStatus) {
        this(group, publicStatus, false);
    }

    /** The same, and owners of announced jobs may have them moved. */
    public ControlAccess withJobOwners() {
        return new ControlAccess(group, publicStatus, true);
    }

    /** For root and the service's own user alone. */
    public static final ControlAccess OWNER = new ControlAccess(Optional.empty(), false);

    /** A group, by both of its names: credentials(7) are shown as either. */
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

    /** Returns true if a caller is root or the service's own user, who may do everything and are never kept out. */
    static boolean isOwner(String user, String ownUser) {
        return user.equals("root") || user.equals("0") || user.equals(ownUser);
    }

    private static boolean belongs(
            String user, String userGroup, ControlGroup group, Function<String, Set<Integer>> groups) {
        return userGroup.equals(group.name())
                || userGroup.equals(String.valueOf(group.gid()))
                || groups.apply(user).contains(group.gid());
    }

    /** The socket's mode: the kernel keeps out users that would be refused anyway. */
    String socketMode() {
        return publicStatus || jobOwners ? ALL : group.isPresent() ? GROUP_TOO : OWNER_ONLY;
    }
}
