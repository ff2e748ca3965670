package io.ppmr.pods;

import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.os.HostPort;
import io.ppmr.os.Ipv4Address;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.tomlj.TomlArray;

/**
 * Reads what a service's file says of pods, and names the keys for that. Immutable.
 *
 * @param templates by name; empty where users can have none
 * @param settings of all of them
 */
public record PodConfig(Map<String, PodTemplate> templates, PodSettings settings) {
    private static final int LEAST_PREFIX_BITS = 8;
    private static final int MOST_PREFIX_BITS = 30;
    private static final int LEAST_MTU_BYTES = 1280;
    private static final int MOST_MTU_BYTES = 65535;
    private static final int MOST_TASKS = 4_194_304;
    /** Lists the places that are each pod's own, which no template can mount. */
    private static final List<Path> OWN =
            List.of(Path.of("/proc"), Path.of("/sys"), Path.of("/dev"), Path.of("/tmp"), Path.of("/ppmr-pod-init"));

    private static final ConfigSection RUNTIME =
            ConfigSection.once("pod_runtime", "What makes [pods](pods.md) on this node, for all templates.");
    private static final ConfigKey<Path> DIRECTORY = RUNTIME.withDefault(
            "directory",
            ValueType.PATH,
            "/var/lib/ppmr/pods",
            "where what is known of the pods is kept, root's alone; no user may be able to change a name in its path");
    private static final ConfigKey<List<String>> PROGRAM = RUNTIME.withDefault(
            "program",
            ValueType.WORDS,
            List.of("crun"),
            "the words that start the OCI runtime, which must understand crun's options");
    private static final ConfigKey<PodSettings.Cgroups> CGROUPS = RUNTIME.withDefault(
            "cgroups",
            ValueType.choice(PodSettings.Cgroups.class),
            "cgroupfs",
            "who makes the pods' cgroups: the runtime itself, systemd, or none; then pods have no limits");

    private static final ConfigKey<List<String>> PEERS = RUNTIME.withDefault(
            "peers",
            ValueType.WORDS,
            List.of(),
            "where targets listen on other nodes with pods, such as [\"node-07:7411\"]; they are told when a pod's"
                    + " address is away and when it is back, so that connections continue soon"
                    + " ([how](pods.md#while-a-pod-is-held)). The same list will do on all nodes");

    private static final ConfigSection TEMPLATES = ConfigSection.many(
            "pods", "What root grants to users who run [pods](pods.md) of that kind; without any no user can run one.");
    private static final ConfigKey<String> BRIDGE =
            TEMPLATES.required("bridge", ValueType.TEXT, "the bridge of this node that they are plugged into");
    private static final ConfigKey<Integer> PREFIX = TEMPLATES.withDefault(
            "prefix",
            ValueType.number(LEAST_PREFIX_BITS, MOST_PREFIX_BITS),
            24L,
            "how many leading bits of an address name the network");
    private static final ConfigKey<String> NETWORK6 = TEMPLATES.optional(
            "network6",
            ValueType.TEXT,
            "the network in which they have an IPv6 address besides, such as \"fd00:20::/64\": its last four bytes are"
                    + " those of the IPv4 address. Without it they have none");
    private static final ConfigKey<String> GATEWAY = TEMPLATES.optional(
            "gateway", ValueType.TEXT, "where packets for other networks go; without it they go nowhere");
    private static final ConfigKey<String> MAC_PREFIX = TEMPLATES.withDefault(
            "mac_prefix",
            ValueType.TEXT,
            "02:50",
            "the first two bytes of a pod's MAC address; the other four are those of its IPv4 address. Of a kind that"
                    + " sites give out themselves: the first one ends in 2, 6, a or e");
    private static final ConfigKey<Integer> MTU = TEMPLATES.withDefault(
            "mtu", ValueType.number(LEAST_MTU_BYTES, MOST_MTU_BYTES), 1500L, "the largest packet, in bytes");
    private static final ConfigKey<TomlArray> SHARES = TEMPLATES.required(
            "shares",
            ValueType.tables("[{user = \"alice\", first = \"10.20.0.10\", last = \"10.20.0.19\"}]"),
            "which users may have which addresses, and so how many pods; no address in two of them");
    private static final ConfigKey<List<String>> MOUNTS = TEMPLATES.withDefault(
            "mounts",
            ValueType.WORDS,
            List.of("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"),
            "directories of the node that they see and cannot change, without what is mounted below them");
    private static final ConfigKey<List<String>> WRITABLE_MOUNTS = TEMPLATES.withDefault(
            "writable_mounts",
            ValueType.WORDS,
            List.of(),
            "directories of the node that they see, and where they can write what their user may; to be moved a pod"
                    + " needs them at both nodes");
    private static final ConfigKey<Long> TMP =
            TEMPLATES.withDefault("tmp", ValueType.SIZE, "1g", "the size of /tmp, which is memory");
    private static final ConfigKey<Long> SHM =
            TEMPLATES.withDefault("shm", ValueType.SIZE, "1g", "the size of /dev/shm, which is memory");
    private static final ConfigKey<Long> MEMORY = TEMPLATES.optional(
            "memory",
            ValueType.SIZE,
            "how much memory a pod may have, with /tmp and /dev/shm; without it as much as the node has");
    private static final ConfigKey<Integer> TASKS = TEMPLATES.optional(
            "tasks",
            ValueType.number(2, MOST_TASKS),
            "how many processes and threads a pod may have; without it as many as the node has room for");

    private static final ConfigKey<String> CHECKPOINTER = TEMPLATES.optional(
            "checkpointer",
            ValueType.TEXT,
            "which [checkpointers.NAME], one of type criu that runs as root, moves them; without it they are not moved."
                    + " To be moved a pod needs a template of this name and with these directories at both nodes, and"
                    + " its user in trusted_users at the target");

    private static final ConfigSection SHARE = ConfigSection.many("shares", "One entry of shares.");
    private static final ConfigKey<Object> USER =
            SHARE.required("user", ValueType.NAME_OR_NUMBER, "who may have these addresses; never root");
    private static final ConfigKey<String> FIRST =
            SHARE.required("first", ValueType.TEXT, "the lowest of the addresses, such as \"10.20.0.10\"");
    private static final ConfigKey<String> LAST = SHARE.required("last", ValueType.TEXT, "the highest of them");

    /** Lists the sections that both services' files may have. */
    static final List<ConfigSection> SECTIONS = List.of(RUNTIME, TEMPLATES);

    /** Lists the sections that are entries of a list. */
    static final List<ConfigSection> ENTRIES = List.of(SHARE);

    public PodConfig {
        templates = Map.copyOf(templates);
    }

    static PodConfig read(ConfigFile file) {
        ConfigFile.Section runtime = file.section(RUNTIME);
        List<String> program = runtime.get(PROGRAM);
        if (program != null && program.isEmpty()) {
            runtime.bad(PROGRAM, "is empty: name the runtime, such as [\"crun\"]");
        }
        PodSettings settings = new PodSettings(
                runtime.get(DIRECTORY), program == null ? List.of() : program, runtime.get(CGROUPS), peers(runtime));
        Map<String, PodTemplate> templates = new LinkedHashMap<>();
        Map<String, List<PodTemplate.Share>> shares = new LinkedHashMap<>();
        file.sections(TEMPLATES).forEach((name, section) -> {
            PodTemplate template = template(name, file, section, settings.cgroups());
            shares.forEach((other, theirs) -> requireApart(section, other, template.shares(), theirs));
            shares.put(name, template.shares());
            templates.put(name, template);
        });
        return new PodConfig(templates, settings);
    }

    private static List<HostPort> peers(ConfigFile.Section runtime) {
        List<HostPort> peers = new ArrayList<>();
        List<String> words = runtime.get(PEERS);
        for (String word : words == null ? List.<String>of() : words) {
            Optional<HostPort> peer = HostPort.parse(word).filter(parsed -> parsed.port() > 0);
            if (peer.isPresent()) {
                peers.add(peer.get());
            } else {
                runtime.bad(PEERS, "'" + word + "' must be " + HostPort.FORM);
            }
        }
        return peers;
    }

    private static String checkpointer(ConfigFile file, ConfigFile.Section section) {
        String named = section.get(CHECKPOINTER);
        if (named != null && !file.names(CheckpointerConfig.SECTION).contains(named)) {
            section.bad(CHECKPOINTER, "there is no [checkpointers." + named + "]; write one, or leave it out");
        }
        return named;
    }

    private static PodTemplate template(
            String name, ConfigFile file, ConfigFile.Section section, PodSettings.Cgroups cgroups) {
        String bridge = section.get(BRIDGE);
        // As the kernel takes names of network interfaces, and nothing that ip(8) would take for a word of its own.
        if (bridge != null && !bridge.matches("[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")) {
            section.bad(
                    BRIDGE, "must be the name of a network interface, of at most 15 letters, digits, '_', '.', '-'");
        }
        String mac = section.get(MAC_PREFIX);
        if (mac != null && !mac.matches("[0-9a-f][26ae]:[0-9a-f]{2}")) {
            section.bad(MAC_PREFIX, "must be two bytes such as \"02:50\", the first ending in 2, 6, a or e");
        }
        int prefix = section.get(PREFIX);
        Optional<Ipv4Address> gateway =
                Optional.ofNullable(section.get(GATEWAY)).flatMap(Ipv4Address::parse);
        if (section.has(GATEWAY) && gateway.isEmpty()) {
            section.bad(GATEWAY, "must be an IPv4 address such as \"10.20.0.1\"");
        }
        Optional<Ipv6Network> network6 =
                Optional.ofNullable(section.get(NETWORK6)).flatMap(Ipv6Network::parse);
        if (section.has(NETWORK6) && network6.isEmpty()) {
            section.bad(
                    NETWORK6,
                    "must be an IPv6 network of unicast addresses with at most 96 leading bits, such as"
                            + " \"fd00:20::/64\"");
        }
        Long memory = section.get(MEMORY);
        Integer tasks = section.get(TASKS);
        if (cgroups == PodSettings.Cgroups.DISABLED && (memory != null || tasks != null)) {
            section.bad(
                    memory != null ? MEMORY : TASKS,
                    "cannot hold without cgroups: take it out, or set cgroups of [pod_runtime]");
        }
        return new PodTemplate(
                name,
                bridge,
                prefix,
                network6,
                gateway,
                mac,
                section.get(MTU),
                shares(section, prefix, gateway),
                directories(section, MOUNTS),
                directories(section, WRITABLE_MOUNTS),
                section.get(TMP),
                section.get(SHM),
                Optional.ofNullable(memory),
                Optional.ofNullable(tasks),
                Optional.ofNullable(checkpointer(file, section)));
    }

    private static List<PodTemplate.Share> shares(
            ConfigFile.Section template, int prefix, Optional<Ipv4Address> gateway) {
        List<PodTemplate.Share> shares = new ArrayList<>();
        for (ConfigFile.Section entry : template.tables(SHARES, SHARE)) {
            Integer uid = entry.here(USER, JobUsers::user);
            if (uid != null && uid == 0) {
                entry.bad(USER, "is root, who has no pods: name an ordinary user");
            }
            Optional<Ipv4Address> first = address(entry, FIRST, prefix);
            Optional<Ipv4Address> last = address(entry, LAST, prefix);
            if (first.isEmpty() || last.isEmpty()) {
                continue;
            }
            PodTemplate.Share share = new PodTemplate.Share(uid == null ? -1 : uid, first.get(), last.get());
            if (first.get().compareTo(last.get()) > 0) {
                entry.bad(LAST, "is below first: exchange them");
            } else if (!first.get().sharesNetwork(last.get(), prefix)) {
                entry.bad(LAST, "is in another network than first: correct it, or prefix");
            } else if (gateway.isPresent() && share.overlaps(new PodTemplate.Share(0, gateway.get(), gateway.get()))) {
                entry.bad(FIRST, "the gateway's address is among them: leave it out");
            } else if (shares.stream().anyMatch(share::overlaps)) {
                entry.bad(FIRST, "some of these addresses stand in another entry: give each to one user");
            } else {
                shares.add(share);
            }
        }
        return shares;
    }

    private static Optional<Ipv4Address> address(ConfigFile.Section entry, ConfigKey<String> key, int prefix) {
        String text = entry.get(key);
        Optional<Ipv4Address> address =
                Optional.ofNullable(text).flatMap(Ipv4Address::parse).filter(parsed -> parsed.isHost(prefix));
        if (text != null && address.isEmpty()) {
            entry.bad(key, "must be the IPv4 address of a host, such as \"10.20.0.10\"");
        }
        return address;
    }

    /** A pod's cable is called by its address, whatever the bridge. */
    private static void requireApart(
            ConfigFile.Section section, String other, List<PodTemplate.Share> ours, List<PodTemplate.Share> theirs) {
        if (ours.stream().anyMatch(one -> theirs.stream().anyMatch(one::overlaps))) {
            section.bad(SHARES, "some of these addresses are those of [pods." + other + "]: give each out once");
        }
    }

    private static Path path(String word) {
        try {
            return Path.of(word);
        } catch (InvalidPathException e) {
            // Not absolute, so it is refused.
            return Path.of("");
        }
    }

    private static List<Path> directories(ConfigFile.Section section, ConfigKey<List<String>> key) {
        List<Path> directories = new ArrayList<>();
        List<String> words = section.get(key);
        for (String word : words == null ? List.<String>of() : words) {
            Path path = path(word);
            if (!path.isAbsolute() || path.getParent() == null || !path.equals(path.normalize())) {
                section.bad(key, "'" + word + "' must be an absolute path without '..', and not /");
            } else if (OWN.stream().anyMatch(own -> path.startsWith(own))) {
                section.bad(key, path + " is the pod's own: leave it out");
            } else {
                directories.add(path);
            }
        }
        return directories;
    }
}
