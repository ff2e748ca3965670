package io.ppmr.migration;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodFacts;
import java.io.IOException;
import java.util.Collection;
import java.util.List;

/**
 * Keeps what lies around ranks: network, root directory and limits, and a record of each, which is on the disk before
 * anything of it is made or taken away. An optional part of the services keeps them. A rank with surroundings is called
 * a pod here, as in the messages of the protocol ({@link PodFacts}), which say what such a rank needs at the target.
 *
 * <p>A migration calls it at its fixed points; each call may be repeated, also by the next run of the service. {@code
 * move} names the migration at the source, and migration and attempt (ID.ATTEMPT) at a target; all pods of a job take
 * part in one. Safe for any thread; each call may take some seconds.
 */
public interface RankSurroundings {
    /** A node on which no part keeps surroundings of ranks. */
    RankSurroundings NONE = new None();

    // ---- source ------------------------------------------------------------------------------------------------

    /** Throws, and names the cause and the remedy, if something of the pod cannot be moved; touches nothing. */
    void requireMovable(ProcessIdentity init) throws IOException, CheckpointException;

    /**
     * Pulls the pod's cable at the node's end, and undoes what an earlier checkpoint has left in its sockets.
     *
     * @param secret the migration's, by which nodes believe that the address is back
     * @return how it is checkpointed
     */
    Enclosure detach(String move, MigrationSecret secret, ProcessIdentity init) throws IOException;

    /** Takes the pods' cables away for good: copies may live, and this kernel must acknowledge nothing more. */
    void disconnect(String move) throws IOException;

    /** Takes away what is left of the pods, whose processes are ended. What cannot be is taken away later. */
    void ended(String move) throws IOException;

    // ---- target ------------------------------------------------------------------------------------------------

    /** Says what speaks for and against taking each of a job's pods, as the checks of {@code ppmr doctor} do. */
    List<Finding> findings(Collection<PodFacts> job);

    /**
     * Makes what the pod is restored into: a network with its address, whose cable is out, its root directory, its
     * cgroup.
     *
     * @param secret the migration's, by which nodes believe that the address is back
     * @return how it is restored
     */
    Enclosure prepare(String move, MigrationSecret secret, PodFacts pod) throws IOException;

    /** Notes the first process of a pod's copy, which is held. */
    void restored(String move, PodFacts pod, ProcessIdentity init) throws IOException;

    /** Ends what is left of copies, and takes away what was made for them. */
    void discard(String move) throws IOException;

    // ---- peers -------------------------------------------------------------------------------------------------

    /**
     * Hears from a service that has the key that a pod's address is away, or back.
     *
     * @return how many pods of this node are its peers
     * @throws RequestException if nothing is done about that address here
     */
    int hearOf(ControlMessage.AddressAway away) throws IOException, RequestException;

    // ---- either ------------------------------------------------------------------------------------------------

    /** Returns true if a pod of this node takes part in that move. */
    boolean has(String move) throws IOException;

    /** Lists the moves, by migration and attempt, for which something was made here that does not run yet. */
    List<String> arriving() throws IOException;

    /**
     * Plugs the cables in, undoes what checkpoints have left in the pods' sockets, and announces the addresses; the
     * pods are this node's from then on, and may be continued. Where it fails at one, it continues there when it is
     * repeated.
     */
    void attach(String move) throws IOException;

    /** Refuses every pod. */
    final class None implements RankSurroundings {
        private static final String NO_PODS =
                "no part of this node's services keeps what lies around ranks. Remedy: install ppmr with its part"
                        + " ppmr-pods";

        private None() {}

        @Override
        public void requireMovable(ProcessIdentity init) throws IOException {
            throw new IOException(NO_PODS);
        }

        @Override
        public Enclosure detach(String move, MigrationSecret secret, ProcessIdentity init) throws IOException {
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
                            "no part of this node's services takes pods",
                            "install ppmr with its part ppmr-pods"))
                    .toList();
        }

        @Override
        public Enclosure prepare(String move, MigrationSecret secret, PodFacts pod) throws IOException {
            throw new IOException(NO_PODS);
        }

        @Override
        public void restored(String move, PodFacts pod, ProcessIdentity init) {}

        @Override
        public void discard(String move) {}

        @Override
        public int hearOf(ControlMessage.AddressAway away) throws RequestException {
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
    }
}
