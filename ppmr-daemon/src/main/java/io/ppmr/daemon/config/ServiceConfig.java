package io.ppmr.daemon.config;

import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.ServiceKeys.ControlKeys;
import io.ppmr.daemon.config.ServiceKeys.FenceKeys;
import io.ppmr.daemon.config.ServiceKeys.MetricsKeys;
import io.ppmr.daemon.config.ServiceKeys.PoolKeys;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.daemon.part.ConfiguredParts;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.warmup.WarmUp;
import io.ppmr.migration.node.NodeSettings;
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
import java.util.OptionalLong;
import java.util.stream.Stream;

/**
 * The part of a configuration that both roles have. Mistakes have null or default values. It is immutable.
 *
 * @param keys the keys at the top of the file
 * @param journal the directory of the journal
 * @param controlSocket the socket for commands
 * @param pool size of the pool and its chunks
 * @param chunkIsChosen whether the service chose the size of a chunk
 * @param key the shared key of the nodes
 * @param rails the networks for chunks
 * @param access the access rights to the control socket
 * @param metrics the address of the metrics endpoint, or empty for none
 * @param fence the fence command, or empty for none
 */
public record ServiceConfig(
        ServiceKeys keys,
        Path journal,
        Path controlSocket,
        PoolGeometry pool,
        boolean chunkIsChosen,
        PreSharedKey key,
        List<RailSettings> rails,
        ControlAccess access,
        Optional<InetSocketAddress> metrics,
        Optional<Fence> fence) {
    private static final int KIB = 1024;
    private static final String PASSWORD_PLACE = "{passwordfile}";
    private static final int OTHERS = 077;
    private static final int ALL_BITS = 07777;

    /** Reads the part of a file that both roles have. */
    static <R extends Record & ServiceKeys.Top> ServiceConfig read(
            ConfigFile file, ConfigFile.FileSection<R> top, List<RailSettings> rails) {
        ServiceKeys keys = top.values().service();
        Path mount = keys.node().mount();
        Path work = keys.node().workDirectory();
        // Inside the mount the commands' own files would count as images.
        if (mount != null && work.startsWith(mount)) {
            top.bad("work_directory", work + " lies inside the mount " + mount + ": name a folder outside");
        }
        if (keys.transport().transport() == TransportChoice.Preference.RDMA) {
            rails.stream()
                    .filter(rail -> !rail.direct())
                    .forEach(rail -> top.bad(
                            "transport", "is rdma, and rail " + rail.name() + " travels by tcp: remove one of both"));
        }
        ConfigFile.FileSection<PoolKeys> pool = file.section(PoolKeys.class);
        return new ServiceConfig(
                keys,
                top.values().journal(),
                top.values().controlSocket(),
                pool(pool),
                pool.values().chunk().isEmpty(),
                top.here("key_file", keys.keyFile(), path -> PreSharedKey.load(path)
                        .with(keys.encryption())),
                List.copyOf(rails),
                access(top, keys.control()),
                metrics(file.section(MetricsKeys.class)),
                fence(file.section(FenceKeys.class)));
    }

    /** Describes the chosen size of chunks, for people. Returns empty if the file sets it. */
    public Optional<String> chunkChoice() {
        return chunkIsChosen
                ? Optional.of("chunks of " + pool.chunkBytes() / KIB + " KiB, " + pool.chunkCount()
                        + " of them: pool.chunk is \"auto\", and the pool has " + pool.poolBytes() / KIB + " KiB")
                : Optional.empty();
    }

    /** Describes the transport, and the size of chunks if the service chose it. */
    public String withChunks(String transport) {
        return transport + chunkChoice().map(choice -> "; " + choice).orElse("");
    }

    /** Returns the facts about this node for the optional parts of the service. */
    public ServicePart.Node node(MeterRegistry meters) {
        return new ServicePart.Node(NativePrograms.fromSystemProperty(), System.getenv(), key, meters);
    }

    /** Lists the sections of a side's file, followed by the sections of the parts. */
    static List<Class<? extends Record>> withParts(Side side, List<Class<? extends Record>> sections) {
        return Stream.concat(sections.stream(), InstalledParts.sections(side).stream())
                .toList();
    }

    private static PoolGeometry pool(ConfigFile.FileSection<PoolKeys> section) {
        long size = section.values().size();
        OptionalLong wanted = section.values().chunk();
        long chunk = wanted.orElse(PoolGeometry.MIN_CHUNK_BYTES);
        if (chunk < PoolGeometry.MIN_CHUNK_BYTES || chunk > PoolGeometry.MAX_CHUNK_BYTES || Long.bitCount(chunk) != 1) {
            section.bad("chunk", "is " + chunk + " bytes; it must be a power of two from 16k to 4m");
        }
        if (!section.isGood()) {
            return null;
        }
        try {
            return wanted.isEmpty() ? PoolGeometry.choose(size) : PoolGeometry.of(size, Math.toIntExact(chunk));
        } catch (IllegalArgumentException e) {
            section.bad(
                    "size",
                    "is " + size + " bytes; it must be a multiple of the chunk (" + chunk + " bytes), at least "
                            + PoolGeometry.MIN_CHUNKS + " of them, and smaller than 2g");
            return null;
        }
    }

    /** Returns the access rights to the control socket of a file. */
    public static ControlAccess access(ConfigFile.FileSection<?> top, ControlKeys keys) {
        ControlAccess.ControlGroup group = top.here(
                "control_group",
                keys.controlGroup().orElse(null),
                named -> new ControlAccess.ControlGroup(named.toString(), JobUsers.group(named)));
        return new ControlAccess(Optional.ofNullable(group), keys.publicStatus());
    }

    /** Returns the address of the metrics endpoint of a file, or empty for none. */
    public static Optional<InetSocketAddress> metrics(ConfigFile.FileSection<MetricsKeys> section) {
        String address = section.values().address();
        InetSocketAddress shown = section.here(
                "port", section.values().port().orElse(null), port -> new InetSocketAddress(address, port));
        if (shown != null && shown.isUnresolved()) {
            section.bad("address", "\"" + address + "\" is no address of this node: give one");
        }
        return Optional.ofNullable(shown);
    }

    /**
     * Returns the commands that root runs, by their keys in the file.
     *
     * @param tools the checkpointers
     * @param parts the configuration of the optional parts
     */
    Map<String, List<String>> rootsCommands(CheckpointerConfig tools, ConfiguredParts parts) {
        Map<String, List<String>> commands = new LinkedHashMap<>(tools.rootsCommands());
        if (fence != null) {
            fence.ifPresent(one -> commands.put("fence.command", one.words()));
        }
        commands.putAll(parts.rootsCommands());
        return commands;
    }

    /**
     * The keys of a fence, of whatever section.
     *
     * @param command the command
     * @param passwordFile the file with its password
     * @param delay time before it runs
     * @param deadline its time limit
     */
    public record FenceSite(
            Optional<List<String>> command, Optional<Path> passwordFile, Duration delay, Duration deadline) {}

    private static Optional<Fence> fence(ConfigFile.FileSection<FenceKeys> section) {
        FenceKeys keys = section.values();
        return fence(section, new FenceSite(keys.command(), keys.passwordFile(), keys.delay(), keys.deadline()));
    }

    /** Returns the fence of a section, and reports its mistakes there. Returns empty if no command is named. */
    public static Optional<Fence> fence(ConfigFile.FileSection<?> section, FenceSite keys) {
        List<String> words = keys.command().orElse(List.of());
        Path password = keys.passwordFile().orElse(null);
        section.here("password_file", password, ServiceConfig::requireSecret);
        boolean wanted = words.stream().anyMatch(word -> word.contains(PASSWORD_PLACE));
        if (wanted && password == null) {
            section.bad("command", "has " + PASSWORD_PLACE + ", and there is no password_file: name one");
        }
        if (!wanted && password != null) {
            section.bad("password_file", "is not used: put " + PASSWORD_PLACE + " into the command");
        }
        List<String> filled = wanted && password != null
                ? words.stream()
                        .map(word -> word.replace(PASSWORD_PLACE, password.toString()))
                        .toList()
                : words;
        return keys.command().map(any -> new Fence(filled, keys.delay(), keys.deadline()));
    }

    private static Path requireSecret(Path file) throws BadValueException, IOException {
        if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
            throw new BadValueException(file + " is not a regular file: make one, mode 0600, with only the password");
        }
        int mode = (int) Files.getAttribute(file, "unix:mode", LinkOption.NOFOLLOW_LINKS);
        int owner = (int) Files.getAttribute(file, "unix:uid", LinkOption.NOFOLLOW_LINKS);
        if ((mode & OTHERS) != 0 || (owner != 0 && owner != JobUser.ofService().uid())) {
            throw new BadValueException(file + " belongs to user " + owner + " with mode "
                    + String.format("%04o", mode & ALL_BITS) + ": chown it to the service's user and chmod 0600 it");
        }
        return file;
    }

    /** Returns the control socket of a file, even if the file has other mistakes. */
    public static Path socketOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        ConfigRole role = ConfigRoles.of(opened);
        ConfigFile.FileSection<?> top = ConfigRoles.topOf(role, opened, role.top());
        top.require("control_socket");
        return ((ServiceKeys.ControlledTop) top.values()).controlSocket();
    }

    /** Returns the directory of the journal of a file, even if the file has other mistakes. */
    public static Path journalOf(Path file) throws ConfigException {
        return topOf(new ConfigFile(file, false), "journal").journal();
    }

    static Path workDirectoryOf(ConfigFile opened) throws ConfigException {
        return topOf(opened, "work_directory").service().node().workDirectory();
    }

    /** Returns the mounts of a service, of images and of its warm-up, even if its file has other mistakes. */
    public static List<Path> mountsOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        NodeSettings node = topOf(opened, "mount", "work_directory").service().node();
        List<Path> mounts = new ArrayList<>(List.of(node.mount()));
        mounts.addAll(WarmUp.mountPoints(ConfigRoles.of(opened).word(), node.workDirectory()));
        return mounts;
    }

    /** Reads the top of a file. Throws if one of these keys has a mistake. */
    private static ServiceKeys.Top topOf(ConfigFile opened, String... required) throws ConfigException {
        ConfigRole role = ConfigRoles.of(opened);
        ConfigFile.FileSection<?> top = ConfigRoles.topOf(role, opened, role.top());
        for (String key : required) {
            top.require(key);
        }
        return (ServiceKeys.Top) top.values();
    }
}
