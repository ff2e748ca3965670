package io.ppmr.cluster;

import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The section of a source's or a target's file by which its node belongs to a cluster. Immutable.
 *
 * @param controllers the controllers' addresses for questions
 * @param zone the zone of this node; empty for none
 * @param session how long the service may be silent
 * @param listen where this service answers the controller's questions
 * @param tls the keys for TLS with the ensemble
 */
@Section(
        name = "cluster",
        doc = "The [cluster](../admin/cluster.md) of this node. Without it the node belongs to none.")
record ClusterKeys(
        @Key(
                doc = "the addresses of the controllers; any of them can answer first. Default: no cluster",
                example = "[\"control-1:7413\", \"control-2:7413\"]")
        Optional<List<InetSocketAddress>> controllers,

        @Key(
                doc = "the zone of this node, such as its rack: up to 32 letters, digits, '.', '_' and '-'. Default:"
                        + " none",
                example = "rack-07")
        Optional<String> zone,

        @Key(
                value = "20s",
                doc = "how long the service may be silent until its session ends; the ensemble may lengthen it to two"
                        + " of its ticks",
                example = "30s")
        Duration session,

        @Key(
                value = "0.0.0.0:0",
                doc = "the address on which this service answers questions of controllers: whether other"
                        + " nodes answer. Port 0: the kernel chooses one",
                example = "0.0.0.0:7412")
        InetSocketAddress listen,

        TlsKeys tls) {}
