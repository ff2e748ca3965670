package io.ppmr.daemon.config;

import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.daemon.warmup.WarmUp;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import io.ppmr.transport.TransportChoice;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The keys at the top of both roles' files. Immutable.
 *
 * @param node what a migration needs to know of the node
 * @param transport how bytes travel
 * @param control who may use the control socket
 */
public record ServiceKeys(
        NodeSettings node,

        @Key(
                doc = "the key by which the nodes know each other, mode 0600, the same on every node (ppmr keygen)",
                example = "/etc/ppmr/key")
        Path keyFile,

        TransportKeys transport,

        @Key(
                value = "" + WarmUp.MIGRATIONS,
                doc = "how many small migrations the service makes within itself before it is ready, for at most 5 s,"
                        + " so that the first real one is not slower than later ones; 0 for no warm-up",
                example = "0",
                most = 100)
        int rehearsals,

        ControlKeys control,

        @Key(
                value = "" + RightsBounds.DEFAULT_FILES,
                doc = "how many files the processes of a rank may have open or mapped in all, and how many threads; a"
                        + " source refuses a rank with more before it is paused, so a target's is not to be the smaller"
                        + " one",
                example = "100000",
                least = 64,
                most = 1 << 20)
        int rankFiles) {
    static final String RAILS = "networks by which chunks travel at once, and one in another's place; those of the same"
            + " name on both nodes. Without it, or without a common name, chunks take the way of the control"
            + " connection. Usually written as sections [[rails]] at the end of the file";

    /** The keys of the ways by which bytes travel. */
    public record TransportKeys(
            @Key(
                    value = "auto",
                    doc = "how the bytes travel: auto takes RDMA where both nodes have it, else TCP",
                    example = "tcp")
            TransportChoice.Preference transport,

            @Key(
                    value = "auto",
                    doc = "who copies over RDMA: read, the target reads chunks out of the source's pool; write, the"
                            + " source writes them into the target's; auto prefers read, where both nodes allow it",
                    example = "write")
            TransportChoice.RdmaModePreference transportMode) {}

    /** The keys of the access to the control socket. */
    public record ControlKeys(
            @Key(
                    doc = "a group whose members may use the control socket, beside root and the service's own user",
                    example = "operators")
            Optional<Object> controlGroup,

            @Key(
                    value = "false",
                    doc = "whether every user of the node may read the service's status",
                    example = "true")
            boolean statusForAll) {}

    /** The top of either role's file. */
    interface Top {
        ServiceKeys service();

        Path controlSocket();

        Path journal();
    }

    @Section(name = "pool", doc = "The memory through which images flow.")
    record PoolKeys(
            @Key(
                    value = "8m",
                    doc = "memory for chunks; a multiple of the chunk, at least four, below 2 GiB; the target adds an"
                            + " eighth",
                    example = "64m")
            long size,

            @Key(
                    value = "auto",
                    doc = "size of a chunk, a power of two from 16k to 4m; the same on source and target; auto takes"
                            + " 256k where the pool has 32 of them, else 128k, so the pools' sizes must be the same"
                            + " then",
                    example = "128k")
            OptionalLong chunk) {}

    @Section(
            name = "metrics",
            doc = "An HTTP endpoint with the service's meters for Prometheus: [metrics](metrics.md).")
    record MetricsKeys(
            @Key(
                    doc = "the port of http://ADDRESS:PORT/metrics; without it there is none",
                    example = "9411",
                    least = 1,
                    most = 65535)
            Optional<Integer> port,

            @Key(
                    value = "127.0.0.1",
                    doc = "the address of this node that it listens at; whoever can reach it can read it",
                    example = "10.1.0.1")
            String address) {}

    @Section(name = "fence", doc = "How the site proves a lost node off.")
    record FenceKeys(
            @Key(
                    doc = "proves a node off: exits with 0 only when the node {node} is off; without it a lost peer is"
                            + " waited for",
                    example = "[\"/usr/local/sbin/power-off\", \"{node}\"]")
            Optional<List<String>> command,

            @Key(
                    doc = "a file with the password that the command needs, of the service's user and mode 0600; its"
                            + " path is put into the place of {passwordfile} in the command, such as behind ipmitool's"
                            + " -f",
                    example = "/etc/ppmr/fence-password")
            Optional<Path> passwordFile,

            @Key(value = "60s", doc = "how long a peer must have been lost before its node is fenced", example = "2m")
            Duration delay,

            @Key(value = "60s", doc = "how long the command may take", example = "30s")
            Duration deadline) {}
}
