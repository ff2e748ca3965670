package io.ppmr.cli.config;

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
            "where the checkpointer's commands keep their logs; outside the mount, on a local disk");
    public static final ConfigKey<Path> KEY_FILE = ConfigKey.required(
            "key_file",
            ValueTypes.PATH,
            "the key by which the nodes know each other, mode 0600, the same on every node (ppmr keygen)");
    public static final ConfigKey<Duration> SILENCE_LIMIT = ConfigKey.withDefault(
            "silence_limit", ValueTypes.TIME, "15s", "how long the connected peer may say nothing before it is lost");
    public static final ConfigKey<TransportWish> TRANSPORT = ConfigKey.withDefault(
            "transport",
            ValueTypes.choice(TransportWish.class),
            "auto",
            "how the bytes travel: auto takes RDMA where both nodes have it, else TCP");

    public static final ConfigKey<Long> POOL_SIZE =
            ConfigKey.withDefault("size", ValueTypes.SIZE, "8m", "memory for chunks; a multiple of the chunk");
    public static final ConfigKey<Long> POOL_CHUNK = ConfigKey.withDefault(
            "chunk",
            ValueTypes.SIZE,
            "128k",
            "size of a chunk, a power of two from 16k to 4m; the same on source and target");
    public static final ConfigSection POOL =
            new ConfigSection("pool", false, "The memory through which images flow.", List.of(POOL_SIZE, POOL_CHUNK));

    private CommonKeys() {}
}
