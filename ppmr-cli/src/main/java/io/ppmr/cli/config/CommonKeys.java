package io.ppmr.cli.config;

import io.ppmr.cli.warmup.WarmUp;
import io.ppmr.transport.TransportWish;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** Keys that both roles have. */
public final class CommonKeys {
    public static final ConfigKey<Path> MOUNT = ConfigKey.required(
            "mount", ValueTypes.PATH, "the folder at which the images are mounted; it is made if it is missing");
    public static final ConfigKey<Path> WORK_DIRECTORY = ConfigKey.withDefault(
            "work_directory",
            ValueTypes.PATH,
            "/var/lib/ppmr/work",
            "where the checkpointers' commands keep their logs and PID files; outside the mount, on a local disk;"
                    + " no user may be able to change a name in its path");
    public static final ConfigKey<Path> KEY_FILE = ConfigKey.required(
            "key_file",
            ValueTypes.PATH,
            "the key by which the nodes know each other, mode 0600, the same on every node (ppmr keygen)");
    public static final ConfigKey<Duration> SILENCE_LIMIT = ConfigKey.withDefault(
            "silence_limit",
            ValueTypes.TIME,
            "15s",
            "how long the connected peer may say nothing before it is lost; an idle side speaks each second");
    public static final ConfigKey<TransportWish> TRANSPORT = ConfigKey.withDefault(
            "transport",
            ValueTypes.choice(TransportWish.class),
            "auto",
            "how the bytes travel: auto takes RDMA where both nodes have it, else TCP");

    private static final int MAX_WARM_UP_MIGRATIONS = 100;

    public static final ConfigKey<Integer> WARM_UP_MIGRATIONS = ConfigKey.withDefault(
            "rehearsals",
            ValueTypes.number(0, MAX_WARM_UP_MIGRATIONS),
            (long) WarmUp.MIGRATIONS,
            "how many small migrations the service makes within itself before it is ready, for at most 5 s, so that the"
                    + " first real one is not slower than later ones; 0 for no warm-up");

    public static final ConfigKey<Object> CONTROL_GROUP = ConfigKey.optional(
            "control_group",
            ValueTypes.NAME_OR_NUMBER,
            "a group whose members may use the control socket, beside root and the service's own user");
    public static final ConfigKey<Boolean> STATUS_FOR_ALL = ConfigKey.withDefault(
            "status_for_all", ValueTypes.FLAG, false, "whether every user of the node may read the service's status");

    public static final ConfigKey<Long> POOL_SIZE = ConfigKey.withDefault(
            "size",
            ValueTypes.SIZE,
            "8m",
            "memory for chunks; a multiple of the chunk, at least four, below 2 GiB; the target adds an eighth");
    public static final ConfigKey<Long> POOL_CHUNK = ConfigKey.withDefault(
            "chunk",
            ValueTypes.SIZE,
            "128k",
            "size of a chunk, a power of two from 16k to 4m; the same on source and target");
    public static final ConfigSection POOL =
            new ConfigSection("pool", false, "The memory through which images flow.", List.of(POOL_SIZE, POOL_CHUNK));

    private static final int MAX_PORT = 65535;

    public static final ConfigKey<Integer> METRICS_PORT = ConfigKey.optional(
            "port",
            ValueTypes.number(1, MAX_PORT),
            "the port of http://ADDRESS:PORT/metrics; without it there is none");
    public static final ConfigKey<String> METRICS_ADDRESS = ConfigKey.withDefault(
            "address",
            ValueTypes.TEXT,
            "127.0.0.1",
            "the address of this node that it listens at; whoever can reach it can read it");
    public static final ConfigSection METRICS = new ConfigSection(
            "metrics",
            false,
            "An HTTP endpoint with the service's meters for Prometheus: [metrics](metrics.md).",
            List.of(METRICS_PORT, METRICS_ADDRESS));
    public static final ConfigKey<List<String>> FENCE_COMMAND = ConfigKey.optional(
            "command",
            ValueTypes.WORDS,
            "proves a node off: exits with 0 only when the node {node} is off; without it a lost peer is waited for");
    public static final ConfigKey<Duration> FENCE_DELAY = ConfigKey.withDefault(
            "delay", ValueTypes.TIME, "60s", "how long a peer must have been lost before its node is fenced");
    public static final ConfigKey<Duration> FENCE_DEADLINE =
            ConfigKey.withDefault("deadline", ValueTypes.TIME, "60s", "how long the command may take");
    public static final ConfigSection FENCE = new ConfigSection(
            "fence",
            false,
            "How the site proves a lost node off.",
            List.of(FENCE_COMMAND, FENCE_DELAY, FENCE_DEADLINE));

    private CommonKeys() {}
}
