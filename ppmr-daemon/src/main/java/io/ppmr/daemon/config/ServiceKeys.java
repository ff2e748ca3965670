package io.ppmr.daemon.config;

import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.daemon.warmup.WarmUp;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.Encryption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The keys at the top of the files of both roles. It is immutable.
 *
 * @param node the node's settings for migrations
 * @param transport the transport of bytes
 * @param control the access to the control socket
 */
public record ServiceKeys(
        NodeSettings node,

        @Key(doc = "the file with the shared key of all nodes, mode 0600 (ppmr keygen)", example = "/etc/ppmr/key")
        Path keyFile,

        @Key(
                value = "control",
                doc = "the protection of connections between services, the same on all nodes. control: control"
                        + " connections use TLS 1.3 with the shared key; chunks are not encrypted. off: nothing is"
                        + " encrypted, as in releases before 0.3.0",
                example = "off")
        Encryption encryption,

        TransportKeys transport,

        @Key(
                value = "" + WarmUp.MIGRATIONS,
                doc = "the number of small migrations that the service runs internally before it is ready, for at"
                        + " most 5 s. They make the first real migration as fast as later ones. 0: none",
                example = "0",
                most = 100)
        int warmUpMigrations,

        ControlKeys control,

        @Key(
                value = "" + RightsBounds.DEFAULT_FILES,
                doc = "limit of the files that the processes of a rank have open or mapped, and of its threads. A"
                        + " source refuses a rank with more before it stops it. A target's limit must not be lower"
                        + " than its sources'",
                example = "100000",
                least = 64,
                most = 1 << 20)
        int rankFiles) {
    static final String RAILS = "networks that carry chunks at once, and one in another's place; those of the same"
            + " name on both nodes. Without it, or without a common name, chunks take the way of the control"
            + " connection. Usually written as sections [[rails]] at the end of the file";

    /** The keys of the transport. */
    public record TransportKeys(
            @Key(
                    value = "auto",
                    doc = "how the bytes travel. auto: RDMA if both nodes have it, otherwise TCP",
                    example = "tcp")
            TransportChoice.Preference transport,

            @Key(
                    value = "auto",
                    doc = "the side that copies over RDMA. With read the target reads chunks out of the source's pool."
                            + " With write the source writes them into the target's pool. With auto: read, if both"
                            + " nodes allow it",
                    example = "write")
            TransportChoice.RdmaModePreference transportMode) {}

    /** The keys of the access to the control socket. */
    public record ControlKeys(
            @Key(
                    doc = "a group whose members may use the control socket; root and the service's own user always"
                            + " may",
                    example = "operators")
            Optional<Object> controlGroup,

            @Key(value = "false", doc = "whether all users of the node may read the service's status", example = "true")
            boolean publicStatus) {}

    /** The top of a file of a service, which has a control socket. */
    public interface ControlledTop {
        Path controlSocket();
    }

    /** The top of a file of a source or a target. */
    interface Top extends ControlledTop {
        ServiceKeys service();

        Path journal();
    }

    @Section(name = "pool", doc = "The memory through which images are sent.")
    record PoolKeys(
            @Key(
                    value = "8m",
                    doc = "memory for chunks: a multiple of the chunk, at least four chunks, less than 2 GiB. The"
                            + " target adds one eighth",
                    example = "64m")
            long size,

            @Key(
                    value = "auto",
                    doc = "size of a chunk: a power of two from 16k to 4m, the same on source and target. With auto it"
                            + " is 256k if the pool has room for 32 of them, otherwise 128k. With auto, use the"
                            + " same pool size on both nodes",
                    example = "128k")
            OptionalLong chunk) {}

    /** The keys of the metrics endpoint. */
    @Section(
            name = "metrics",
            doc = "An HTTP endpoint with the service's meters for Prometheus: [metrics](metrics.md).")
    public record MetricsKeys(
            @Key(
                    doc = "the port of http://ADDRESS:PORT/metrics. Default: no endpoint",
                    example = "9411",
                    least = 1,
                    most = 65535)
            Optional<Integer> port,

            @Key(
                    value = "127.0.0.1",
                    doc = "the address of this node on which the endpoint listens. Every user and host that reaches"
                            + " it can read it",
                    example = "10.1.0.1")
            String address) {}

    @Section(name = "fence", doc = "How the site proves that a lost node is off.")
    record FenceKeys(
            @Key(
                    doc = "the command that switches a node off. It must exit with 0 only if the node {node} is"
                            + " off. Without it, the services wait for a lost peer",
                    example = "[\"/usr/local/sbin/power-off\", \"{node}\"]")
            Optional<List<String>> command,

            @Key(
                    doc = "a file with the password for the command, owned by the service's user, mode 0600. Its"
                            + " path replaces {passwordfile} in the command, for example after ipmitool's -f",
                    example = "/etc/ppmr/fence-password")
            Optional<Path> passwordFile,

            @Key(value = "60s", doc = "time after the loss of a peer before its node is fenced", example = "2m")
            Duration delay,

            @Key(value = "60s", doc = "time limit of the command", example = "30s")
            Duration deadline) {}
}
