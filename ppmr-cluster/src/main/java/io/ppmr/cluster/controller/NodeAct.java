package io.ppmr.cluster.controller;

import io.ppmr.cluster.record.NodeRecord;
import java.util.List;

/** An act that the table of nodes requires. The controller carries it out. Immutable. */
sealed interface NodeAct {
    /**
     * Probe a node's kernel.
     *
     * @param addresses where its services answered questions
     * @param round the number of this probe of the node, which its result must have
     */
    record Probe(String host, List<String> addresses, long round) implements NodeAct {}

    /**
     * Request the results of other nodes' probes.
     *
     * @param batch the number of this request
     * @param addresses the addresses of the nodes in question
     * @param witnesses the nodes that are asked
     */
    record AskWitnesses(long batch, List<String> addresses, List<Witness> witnesses) implements NodeAct {}

    /** Keep a node's record for the next active controller. */
    record Write(String host, NodeRecord record) implements NodeAct {}

    /**
     * Switch a node off: note it in the node's record, then run the site's command.
     *
     * @param bootId the boot that the command proves off
     * @param number the number of this fence, which its result must have
     * @param provedNs when the probe was begun by which the node was found silent once more
     */
    record FenceNode(String host, String bootId, long number, long provedNs) implements NodeAct {}

    /** Remove a node's record: it belongs to the cluster no longer. */
    record Remove(String host) implements NodeAct {}

    /**
     * A node that is UP, and where it answers questions.
     *
     * @param host its name
     */
    record Witness(String host, String address) {}
}
