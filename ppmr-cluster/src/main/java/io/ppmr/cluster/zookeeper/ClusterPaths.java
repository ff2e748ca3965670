package io.ppmr.cluster.zookeeper;

import java.util.List;

/** The places of a cluster's records in the ensemble. */
final class ClusterPaths {
    static final String ROOT = "/ppmr";
    /** The random name of the cluster. */
    static final String ID = ROOT + "/id";
    /** The records of services, each by its service while that has a session. */
    static final String SERVICES = ROOT + "/services";
    /** The records of nodes, by the active controller. */
    static final String NODES = ROOT + "/nodes";
    /** The election of the active controller. */
    static final String LATCH = ROOT + "/controllers";
    /** The records of jobs over several nodes, by the active controller. */
    static final String JOBS = ROOT + "/jobs";
    /** The restarts that each node takes part in, by the active controller. */
    static final String ORDERS = ROOT + "/orders";
    /** All of them, each behind the one that it is in. */
    static final List<String> FIXED = List.of(ROOT, NODES, LATCH, SERVICES, ID, JOBS, ORDERS);

    private ClusterPaths() {}
}
