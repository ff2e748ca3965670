package io.ppmr.cluster.record;

import java.util.Locale;

/** The state of a node, as the active controller determines it. */
public enum NodeStatus {
    /** All of its services have a session. */
    UP,
    /** Its sessions ended, and the controller probes it. It lasts at most 5 s. */
    SILENT,
    /** A service has no session, and the node's kernel answers a TCP connection, if only with a refusal. */
    SERVICE_DOWN,
    /** Neither the controller nor two other nodes get an answer from its kernel. */
    SUSPECT,
    /** The site's command to switch it off was started, and its result is not known yet. Neither UP nor OFF. */
    FENCING,
    /** The controller gets no answer, and fewer than two other nodes could confirm it. An operator must decide. */
    UNKNOWN,
    /** The fence command has proved that this boot of the node ended, or an operator reported it. */
    OFF;

    /** Returns it as people enter it. */
    public String word() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
