package io.ppmr.cluster.controller;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Executor;

/** All nodes of the cluster, as a plan of a restart queries them. Safe for any thread. */
interface QueriedCluster extends AskedServices {
    /** Returns all nodes that are not off, with the roles of those of their services that have a session. */
    Map<String, Set<String>> present() throws IOException, InterruptedException;

    /** Returns the node whose target has an address, HOST:PORT; empty if none with a session has it. */
    Optional<String> findHostAt(String address) throws IOException, InterruptedException;

    /** Returns nodes whose targets have a session, without some: the least loaded first, and not more than some. */
    List<String> spares(Set<String> without) throws IOException, InterruptedException;

    /** Runs questions; never on the caller's thread. */
    Executor workers();
}
