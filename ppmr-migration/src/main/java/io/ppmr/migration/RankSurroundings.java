package io.ppmr.migration;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodFacts;
import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * Manages the surroundings of ranks: network, root directory and limits. An optional part of the services implements
 * it. Its record of each is on the disk before any of it is made or removed. Such a rank is called a pod here, as in
 * the protocol. {@link PodFacts} has its needs at the target.
 *
 * <p>A migration calls it at fixed points. Each call may be repeated, also by the next run of the service. {@code move}
 * names the migration at the source, and migration and attempt (ID.ATTEMPT) at a target. All pods of a job take part in
 * one move. Safe for any thread. Each call may take some seconds.
 */
public interface RankSurroundings {
    /** The implementation for a node without pods. */
    RankSurroundings NONE = new None();

    // ---- source ------------------------------------------------------------------------------------------------

    /** Throws, with the cause and the remedy, if the pod cannot be moved. Changes nothing. */
    void requireMovable(ProcessIdentity init) throws IOException, CheckpointException;

    /**
     * A TCP connection of a pod to another address than its own.
     *
     * @param pod the full name of the pod
     * @param pid the PID of a process that has it, on the node
     * @param address the address of the peer
     * @param port the port of the peer
     */
    record OutgoingConnection(String pod, int pid, String address, int port) {}

    /** Lists the pod's TCP connections to other addresses than its own. Changes nothing. */
    List<OutgoingConnection> connections(ProcessIdentity init) throws IOException;

    /** Returns the enclosure for the pod's checkpoint. Changes nothing. */
    Enclosure enclosure(ProcessIdentity init) throws IOException;

    /**
     * Notes that the pod leaves by that move. Its network is not touched. {@link #attach} and {@link #settle} revert
     * it.
     *
     * @param secret the migration's secret, which proves to peers that the address is back; empty if peers get no
     * notice,
     *     since all of them are held, too
     */
    RankDeparture leave(String move, Optional<MigrationSecret> secret, ProcessIdentity init) throws IOException;

    /** A pod of which {@link #leave} has noted that it leaves. */
    @FunctionalInterface
    interface RankDeparture {
        /**
         * Disconnects the pod's network at the node's end, and undoes changes of an earlier checkpoint to its sockets.
         * All else was done before, so the pod's pause does not wait for the disk.
         */
        void detach() throws IOException;
    }

    /**
     * Removes the pods' network links permanently. Copies may live, and this kernel must not acknowledge further
     * packets.
     */
    void disconnect(String move) throws IOException;

    /**
     * Removes the pods' remaining resources after their processes ended. Resources that cannot be removed now are
     * removed later.
     */
    void ended(String move) throws IOException;

    // ---- target ------------------------------------------------------------------------------------------------

    /** Returns findings for and against receiving each of a job's pods, as {@code ppmr doctor} does. */
    List<Finding> findings(Collection<PodFacts> job);

    /**
     * Makes the pod's surroundings for the restore: a disconnected network with its address, its root directory, and
     * its cgroup.
     *
     * @param secret the migration's secret, which proves to peers that the address is back; empty if peers get no
     *     notice, since all of them are held, too
     * @param isHeld whether the pod is held at its source by now; otherwise its memory is copied while it runs there
     * @return the enclosure for the restore
     */
    Enclosure prepare(String move, Optional<MigrationSecret> secret, PodFacts pod, boolean isHeld) throws IOException;

    /** Notes the first process of a pod's copy, which is held. */
    void restored(String move, PodFacts pod, ProcessIdentity init) throws IOException;

    /** Kills the remaining processes of the copies, and removes their surroundings. */
    void discard(String move) throws IOException;

    // ---- peers -------------------------------------------------------------------------------------------------

    /**
     * Handles an authenticated service's message that a pod's address is away, or back.
     *
     * @return number of this node's pods that are its peers
     * @throws RequestException if this node ignores that address
     */
    int noteAddressAway(ControlMessage.AddressAway away) throws IOException, RequestException;

    // ---- either ------------------------------------------------------------------------------------------------

    /** Returns true if a pod of this node takes part in that move. */
    boolean has(String move) throws IOException;

    /** Lists the moves, by migration and attempt, whose pods were made here and do not run yet. */
    List<String> arriving() throws IOException;

    /**
     * Connects the pods' networks, undoes changes of checkpoints to their sockets, and announces their addresses. From
     * then on the pods may be continued. If it fails at one pod, a repeated call continues there.
     */
    void attach(String move) throws IOException;

    /** Notes that the pods of a move belong to this node, and to no move. Their networks are connected by now. */
    void settle(String move) throws IOException;

    /** Refuses every pod. */
    final class None implements RankSurroundings {
        private static final String NO_PODS =
                "this node's services have no part that manages pods. Remedy: install ppmr with its part"
                        + " ppmr-pods";

        private None() {}

        @Override
        public void requireMovable(ProcessIdentity init) throws IOException {
            throw new IOException(NO_PODS);
        }

        @Override
        public List<OutgoingConnection> connections(ProcessIdentity init) throws IOException {
            throw new IOException(NO_PODS);
        }

        @Override
        public Enclosure enclosure(ProcessIdentity init) throws IOException {
            throw new IOException(NO_PODS);
        }

        @Override
        public RankDeparture leave(String move, Optional<MigrationSecret> secret, ProcessIdentity init)
                throws IOException {
            throw new IOException(NO_PODS);
        }

        @Override
        public void disconnect(String move) {}

        @Override
        public void ended(String move) {}

        @Override
        public List<Finding> findings(Collection<PodFacts> job) {
            return job.stream()
                    .map(pod -> Finding.fail(
                            Finding.PODS,
                            "this node's services have no part that receives pods",
                            "install ppmr with its part ppmr-pods"))
                    .toList();
        }

        @Override
        public Enclosure prepare(String move, Optional<MigrationSecret> secret, PodFacts pod, boolean isHeld)
                throws IOException {
            throw new IOException(NO_PODS);
        }

        @Override
        public void restored(String move, PodFacts pod, ProcessIdentity init) {}

        @Override
        public void discard(String move) {}

        @Override
        public int noteAddressAway(ControlMessage.AddressAway away) throws RequestException {
            throw new RequestException(NO_PODS);
        }

        @Override
        public boolean has(String move) {
            return false;
        }

        @Override
        public List<String> arriving() {
            return List.of();
        }

        @Override
        public void attach(String move) {}

        @Override
        public void settle(String move) {}
    }
}
