package io.ppmr.daemon.control;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Counts the connections to a control socket, and limits them. A user has a share. Those who may control the service
 * have places that nobody else gets, and take others' as well while these are free. So no user, and no number of users,
 * keeps root from the socket. Safe for any thread.
 */
final class ControlPlaces {
    /** For those who may not control the service, all together. */
    static final int FOR_OTHERS = 32;
    /** More than that, for root, the service's own user and the control group. */
    static final int KEPT_FREE = 16;
    /** For one user who is not root or the service's own. */
    static final int OF_A_USER = 8;

    private final Map<String, Integer> users = new HashMap<>();
    private int controlling;
    private int others;

    /** Says why a user gets no further connection; empty if the user's share is not used up. */
    synchronized Optional<String> shareIsTaken(String user) {
        int held = users.getOrDefault(user, 0);
        return held < OF_A_USER
                ? Optional.empty()
                : Optional.of("user " + user + " has " + held
                        + " connections to this service open, as many as a user may: end some of them");
    }

    /**
     * Takes a place, which {@link #leave} gives back.
     *
     * @param owner whether that is root or the service's own user, who have no share
     * @param controls whether the user may control the service
     * @return why there is none; empty if one was taken
     */
    synchronized Optional<String> enter(String user, boolean owner, boolean controls) {
        Optional<String> refusal = owner ? Optional.empty() : shareIsTaken(user);
        if (refusal.isEmpty() && (controls ? controlling + others >= FOR_OTHERS + KEPT_FREE : others >= FOR_OTHERS)) {
            refusal = Optional.of("this service has as many connections as it takes"
                    + (controls ? "" : " of users who may not control it") + ": try again later");
        }
        if (refusal.isEmpty()) {
            users.merge(user, 1, Integer::sum);
            if (controls) {
                controlling++;
            } else {
                others++;
            }
        }
        return refusal;
    }

    /** Gives a place back that {@link #enter} has given for the same user and right. */
    synchronized void leave(String user, boolean controls) {
        users.computeIfPresent(user, (name, count) -> count == 1 ? null : count - 1);
        if (controls) {
            controlling--;
        } else {
            others--;
        }
    }
}
