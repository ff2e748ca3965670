package io.ppmr.daemon.config;

import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.daemon.part.ConfiguredParts;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.warmup.WarmUp;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.tomlj.TomlArray;

/**
 * The part of a configuration that both roles have, with its keys; null and default values where the file has mistakes.
 * Immutable.
 *
 * @param mountPoint where it mounts
 * @param workDirectory for the checkpointers' own files, outside the mount
 * @param journal the folder of its journal
 * @param pool size of the pool and its chunks
 * @param chunkIsChosen whether the size of a chunk was left to the service
 * @param key by which the nodes know each other
 * @param silenceLimit how long the connected peer may say nothing
 * @param transport how the bytes may travel
 * @param transportMode who copies where they travel by RDMA
 * @param rails the networks for chunks beside that of the control connection
 * @param warmUpMigrations small migrations that it makes within itself before it is ready
 * @param controlSocket where commands reach it
 * @param access who may use that socket
 * @param metrics where its meters are shown, if they are
 * @param fence how a lost peer is proved off, if it can be
 * @param rankFiles how many files a rank may have open or mapped in all
 */
public record ServiceConfig(
        Path mountPoint,
        Path workDirectory,
        Path journal,
        PoolGeometry pool,
        boolean chunkIsChosen,
        PreSharedKey key,
        Duration silenceLimit,
        TransportChoice.Preference transport,
        TransportChoice.RdmaModePreference transportMode,
        List<RailSettings> rails,
        int warmUpMigrations,
        Path controlSocket,
        ControlAccess access,
        Optional<InetSocketAddress> metrics,
        Optional<Fence> fence,
        int rankFiles) {
    private static final int MAX_WARM_UP_MIGRATIONS = 100;
    private static final int MAX_PORT = 65535;
    private static final int MIN_RANK_FILES = 64;
    private static final int MAX_RANK_FILES = 1 << 20;
    private static final int KIB = 1024;
    private static final String PASSWORD_PLACE = "{passwordfile}";
    private static final int OTHERS = 077;
    private static final int ALL_BITS = 07777;

    /** With these keys the top of both roles' files begins. */
    static final ConfigSection TOP = ConfigSection.once("", "The service itself.");

    private static final ConfigKey<Path> MOUNT = TOP.required(
            "mount", ValueType.PATH, "the folder at which the images are mounted; it is made if it is missing");
    private static final ConfigKey<Path> WORK_DIRECTORY = TOP.withDefault(
            "work_directory",
            ValueType.PATH,
            "/var/lib/ppmr/work",
            "where the checkpointers' commands keep their logs and PID files; outside the mount, on a local disk;"
                    + " no user may be able to change a name in its path");
    private static final ConfigKey<Path> KEY_FILE = TOP.required(
            "key_file",
            ValueType.PATH,
            "the key by which the nodes know each other, mode 0600, the same on every node (ppmr keygen)");
    private static final ConfigKey<Duration> SILENCE_LIMIT = TOP.withDefault(
            "silence_limit",
            ValueType.TIME,
            "15s",
            "how long the connected peer may say nothing before it is lost; an idle side speaks each second");
    private static final ConfigKey<TransportChoice.Preference> TRANSPORT = TOP.withDefault(
            "transport",
            ValueType.choice(TransportChoice.Preference.class),
            "auto",
            "how the bytes travel: auto takes RDMA where both nodes have it, else TCP");
    private static final ConfigKey<TransportChoice.RdmaModePreference> TRANSPORT_MODE = TOP.withDefault(
            "transport_mode",
            ValueType.choice(TransportChoice.RdmaModePreference.class),
            "auto",
            "who copies over RDMA: read, the target reads chunks out of the source's pool; write, the source writes"
                    + " them into the target's; auto prefers read, where both nodes allow it");

    static final ConfigKey<TomlArray> RAILS = TOP.optional(
            "rails",
            ValueType.tables("[{name = \"ib0\"}], written as sections [[rails]] at the end of the file"),
            "networks by which chunks travel at once, and one in another's place; those of the same name on both nodes."
                    + " Without it, or without a common name, chunks take the way of the control connection");

    private static final ConfigKey<Integer> WARM_UP_MIGRATIONS = TOP.withDefault(
            "rehearsals",
            ValueType.number(0, MAX_WARM_UP_MIGRATIONS),
            (long) WarmUp.MIGRATIONS,
            "how many small migrations the service makes within itself before it is ready, for at most 5 s, so that the"
                    + " first real one is not slower than later ones; 0 for no warm-up");

    private static final ConfigKey<Object> CONTROL_GROUP = TOP.optional(
            "control_group",
            ValueType.NAME_OR_NUMBER,
            "a group whose members may use the control socket, beside root and the service's own user");
    private static final ConfigKey<Boolean> STATUS_FOR_ALL = TOP.withDefault(
            "status_for_all", ValueType.FLAG, false, "whether every user of the node may read the service's status");

    private static final ConfigKey<Integer> RANK_FILES = TOP.withDefault(
            "rank_files",
            ValueType.number(MIN_RANK_FILES, MAX_RANK_FILES),
            (long) RightsBounds.USUAL_FILES,
            "how many files the processes of a rank may have open or mapped in all, and how many threads; a source"
                    + " refuses a rank with more before it is paused, so a target's is not to be the smaller one");

    static final ConfigSection POOL = ConfigSection.once("pool", "The memory through which images flow.");
    private static final ConfigKey<Long> POOL_SIZE = POOL.withDefault(
            "size",
            ValueType.SIZE,
            "8m",
            "memory for chunks; a multiple of the chunk, at least four, below 2 GiB; the target adds an eighth");
    private static final ConfigKey<Optional<Long>> POOL_CHUNK = POOL.withDefault(
            "chunk",
            ValueType.SIZE_OR_AUTO,
            "auto",
            "size of a chunk, a power of two from 16k to 4m; the same on source and target; auto takes 256k"
                    + " where the pool has 32 of them, else 128k, so the pools' sizes must be the same then");

    static final ConfigSection METRICS = ConfigSection.once(
            "metrics", "An HTTP endpoint with the service's meters for Prometheus: [metrics](metrics.md).");
    private static final ConfigKey<Integer> METRICS_PORT = METRICS.optional(
            "port", ValueType.number(1, MAX_PORT), "the port of http://ADDRESS:PORT/metrics; without it there is none");
    private static final ConfigKey<String> METRICS_ADDRESS = METRICS.withDefault(
            "address",
            ValueType.TEXT,
            "127.0.0.1",
            "the address of this node that it listens at; whoever can reach it can read it");
    static final ConfigSection FENCE = ConfigSection.once("fence", "How the site proves a lost node off.");
    private static final ConfigKey<List<String>> FENCE_COMMAND = FENCE.optional(
            "command",
            ValueType.WORDS,
            "proves a node off: exits with 0 only when the node {node} is off; without it a lost peer is waited for");
    private static final ConfigKey<Path> FENCE_PASSWORD_FILE = FENCE.optional(
            "password_file",
            ValueType.PATH,
            "a file with the password that the command needs, of the service's user and mode 0600; its path is put"
                    + " into the place of {passwordfile} in the command, such as behind ipmitool's -f");
    static final ConfigKey<Duration> FENCE_DELAY = FENCE.withDefault(
            "delay", ValueType.TIME, "60s", "how long a peer must have been lost before its node is fenced");
    private static final ConfigKey<Duration> FENCE_DEADLINE =
            FENCE.withDefault("deadline", ValueType.TIME, "60s", "how long the command may take");

    /** Reads it; {@code socketKey} and {@code journalKey} are the role's, which have different defaults. */
    static ServiceConfig read(
            ConfigFile file,
            ConfigFile.Section top,
            ConfigKey<Path> socketKey,
            ConfigKey<Path> journalKey,
            List<RailSettings> rails) {
        Path mount = top.get(MOUNT);
        Path work = top.get(WORK_DIRECTORY);
        // Inside the mount the commands' own files would be taken for images.
        if (mount != null && work.startsWith(mount)) {
            top.bad(WORK_DIRECTORY, work + " lies inside the mount " + mount + ": name a folder outside");
        }
        TransportChoice.Preference transport = top.get(TRANSPORT);
        if (transport == TransportChoice.Preference.RDMA) {
            rails.stream()
                    .filter(rail -> !rail.direct())
                    .forEach(rail -> top.bad(
                            TRANSPORT, "is rdma, and rail " + rail.name() + " travels by tcp: take one of both out"));
        }
        ConfigFile.Section poolSection = file.section(POOL);
        Optional<Long> chunk = poolSection.get(POOL_CHUNK);
        return new ServiceConfig(
                mount,
                work,
                top.get(journalKey),
                pool(poolSection, chunk),
                chunk.isEmpty(),
                top.here(KEY_FILE, PreSharedKey::load),
                top.get(SILENCE_LIMIT),
                transport,
                top.get(TRANSPORT_MODE),
                List.copyOf(rails),
                top.get(WARM_UP_MIGRATIONS),
                top.get(socketKey),
                access(top),
                metrics(file.section(METRICS)),
                fence(file.section(FENCE)),
                top.get(RANK_FILES));
    }

    /** The chunks' size as it is and why, for people; empty if the file says it. */
    public Optional<String> chunkChoice() {
        return chunkIsChosen
                ? Optional.of("chunks of " + pool.chunkBytes() / KIB + " KiB, " + pool.chunkCount()
                        + " of them: pool.chunk is \"auto\", and the pool has " + pool.poolBytes() / KIB + " KiB")
                : Optional.empty();
    }

    /** Tells how the bytes travel, and in which chunks if the service has chosen their size. */
    public String withChunks(String transport) {
        return transport + chunkChoice().map(choice -> "; " + choice).orElse("");
    }

    /** Gives what optional parts of its service need to know of this node. */
    public ServicePart.Node node(MeterRegistry meters) {
        return new ServicePart.Node(NativePrograms.fromSystemProperty(), System.getenv(), key, meters);
    }

    /** Lists sections of a side's file, with those of the parts after them. */
    static List<ConfigSection> withParts(Side side, ConfigSection... sections) {
        return Stream.concat(Stream.of(sections), InstalledParts.sections(side).stream())
                .toList();
    }

    private static PoolGeometry pool(ConfigFile.Section section, Optional<Long> wanted) {
        long size = section.get(POOL_SIZE);
        long chunk = wanted.orElse((long) PoolGeometry.MIN_CHUNK_BYTES);
        if (chunk < PoolGeometry.MIN_CHUNK_BYTES || chunk > PoolGeometry.MAX_CHUNK_BYTES || Long.bitCount(chunk) != 1) {
            section.bad(POOL_CHUNK, "is " + chunk + " bytes; it must be a power of two from 16k to 4m");
        }
        if (!section.isGood()) {
            return null;
        }
        try {
            return wanted.isEmpty() ? PoolGeometry.chosen(size) : PoolGeometry.of(size, Math.toIntExact(chunk));
        } catch (IllegalArgumentException e) {
            section.bad(
                    POOL_SIZE,
                    "is " + size + " bytes; it must be a multiple of the chunk (" + chunk + " bytes), at least "
                            + PoolGeometry.MIN_CHUNKS + " of them, and smaller than 2g");
            return null;
        }
    }

    private static ControlAccess access(ConfigFile.Section top) {
        ControlAccess.ControlGroup group = top.here(
                CONTROL_GROUP, named -> new ControlAccess.ControlGroup(named.toString(), JobUsers.group(named)));
        return new ControlAccess(Optional.ofNullable(group), top.get(STATUS_FOR_ALL));
    }

    private static Optional<InetSocketAddress> metrics(ConfigFile.Section section) {
        String address = section.get(METRICS_ADDRESS);
        InetSocketAddress shown = section.here(METRICS_PORT, port -> new InetSocketAddress(address, port));
        if (shown != null && shown.isUnresolved()) {
            section.bad(METRICS_ADDRESS, "\"" + address + "\" is no address of this node: give one");
        }
        return Optional.ofNullable(shown);
    }

    /**
     * Returns the commands that root runs, by what names them in the file.
     *
     * @param tools those of the checkpointers
     * @param parts what it says of the optional parts
     */
    Map<String, List<String>> rootsCommands(CheckpointerConfig tools, ConfiguredParts parts) {
        Map<String, List<String>> commands = new LinkedHashMap<>(tools.rootsCommands());
        if (fence != null) {
            fence.ifPresent(one -> commands.put("fence.command", one.words()));
        }
        commands.putAll(parts.rootsCommands());
        return commands;
    }

    private static Optional<Fence> fence(ConfigFile.Section section) {
        List<String> words = section.get(FENCE_COMMAND);
        Duration delay = section.get(FENCE_DELAY);
        Duration deadline = section.get(FENCE_DEADLINE);
        Path password = section.get(FENCE_PASSWORD_FILE);
        section.here(FENCE_PASSWORD_FILE, ServiceConfig::requireSecret);
        boolean wanted = words != null && words.stream().anyMatch(word -> word.contains(PASSWORD_PLACE));
        if (wanted && password == null) {
            section.bad(FENCE_COMMAND, "has " + PASSWORD_PLACE + ", and there is no password_file: name one");
        }
        if (!wanted && password != null) {
            section.bad(FENCE_PASSWORD_FILE, "is not used: put " + PASSWORD_PLACE + " into the command");
        }
        if (words == null) {
            return Optional.empty();
        }
        List<String> filled = wanted && password != null
                ? words.stream()
                        .map(word -> word.replace(PASSWORD_PLACE, password.toString()))
                        .toList()
                : words;
        return Optional.of(new Fence(filled, delay, deadline));
    }

    private static Path requireSecret(Path file) throws BadValueException, IOException {
        if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
            throw new BadValueException(file + " is no regular file: make one, mode 0600, with the password alone");
        }
        int mode = (int) Files.getAttribute(file, "unix:mode", LinkOption.NOFOLLOW_LINKS);
        int owner = (int) Files.getAttribute(file, "unix:uid", LinkOption.NOFOLLOW_LINKS);
        if ((mode & OTHERS) != 0 || (owner != 0 && owner != JobUser.ofService().uid())) {
            throw new BadValueException(file + " belongs to user " + owner + " with mode "
                    + String.format("%04o", mode & ALL_BITS) + ": chown it to the service's user and chmod 0600 it");
        }
        return file;
    }

    /** The control socket that a file names, whatever else is wrong in it. */
    public static Path socketOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        return ConfigRole.of(opened)
                .topOf(opened)
                .require(ConfigRole.of(opened).isTarget() ? TargetConfig.CONTROL_SOCKET : SourceConfig.CONTROL_SOCKET);
    }

    /** Returns the folder of the journal that a file names, whatever else is wrong in it. */
    public static Path journalOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        return ConfigRole.of(opened)
                .topOf(opened)
                .require(ConfigRole.of(opened).isTarget() ? TargetConfig.JOURNAL : SourceConfig.JOURNAL);
    }

    static Path workDirectoryOf(ConfigFile opened) throws ConfigException {
        return ConfigRole.of(opened).topOf(opened).require(WORK_DIRECTORY);
    }

    /** Returns where the service of a file mounts, for its images and in its warm-up, whatever else is wrong in it. */
    public static List<Path> mountsOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        ConfigFile.Section top = ConfigRole.of(opened).topOf(opened);
        List<Path> mounts = new ArrayList<>(List.of(top.require(MOUNT)));
        mounts.addAll(WarmUp.mountPoints(ConfigRole.of(opened).word(), top.require(WORK_DIRECTORY)));
        return mounts;
    }
}
