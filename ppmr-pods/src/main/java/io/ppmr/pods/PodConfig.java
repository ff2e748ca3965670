package io.ppmr.pods;

import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.Ipv4Address;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The configuration of pods in a service's file. It is immutable.
 *
 * @param templates the templates by name, or empty if users cannot run pods
 * @param settings the settings of all pods
 */
public record PodConfig(Map<String, PodTemplate> templates, PodSettings settings) {
    /** The paths that each pod has for itself, which no template can mount. */
    private static final List<Path> OWN =
            List.of(Path.of("/proc"), Path.of("/sys"), Path.of("/dev"), Path.of("/tmp"), Path.of("/ppmr-pod-init"));

    /** The sections that the files of both services may have. */
    static final List<Class<? extends Record>> SECTIONS = List.of(PodSettings.class, PodKeys.class);

    @Section(
            name = "pods",
            many = true,
            doc = "What root grants to users who run [pods](../admin/pods.md) of this kind. Without such a section no"
                    + " user can run pods.")
    record PodKeys(
            PodTemplate.PodNetwork network,

            @Key(
                    doc = "the addresses that each user may have; they limit the number of the user's pods. No"
                            + " address may be in two shares",
                    example = "[{user = \"alice\", first = \"10.20.0.10\", last = \"10.20.0.19\"}]")
            List<ShareKeys> shares,

            PodTemplate.Mounts mounts,
            PodTemplate.PodLimits limits,

            @Key(
                    doc = "the [checkpointers.NAME] that moves them, of type criu and run as root. Default: they"
                            + " are not moved. Both nodes need a template of this name with these directories, and"
                            + " the target needs the user in trusted_users",
                    example = "criu")
            Optional<String> checkpointer,

            @Key(
                    doc = "the directory for the images of"
                            + " [jobs over several nodes](../admin/job-checkpoints.md); it is root's."
                            + " Nodes that share it can restart each other's pods. Default: no checkpoints of such"
                            + " jobs",
                    example = "/ckpt")
            Optional<Path> checkpoints,

            @Key(
                    doc = "a directory that all nodes share, into which the images are copied from checkpoints"
                            + " while the job runs; it is root's. With it checkpoints can be on a local disk, and"
                            + " the job survives the loss of a node. Default: no copies",
                    example = "/shared/ckpt")
            Optional<Path> copies,

            @Key(
                    value = "hold",
                    doc = "what is done with a job over several nodes when a node with pods of it is off. With hold"
                            + " ppmr job recover brings it back, with recover the controllers do so by themselves",
                    example = "recover")
            PodTemplate.OnLoss onLoss) {}

    @Section(doc = "The addresses of one user.")
    record ShareKeys(
            @Key(doc = "the user of these addresses; never root", example = "alice")
            Object user,

            @Key(doc = "the lowest address", example = "10.20.0.10")
            Ipv4Address first,

            @Key(doc = "the highest address", example = "10.20.0.19")
            Ipv4Address last) {}

    public PodConfig {
        templates = Map.copyOf(templates);
    }

    static PodConfig read(ConfigFile file) {
        ConfigFile.FileSection<PodSettings> runtime = file.section(PodSettings.class);
        PodSettings settings = runtime.values();
        if (settings.program().isEmpty()) {
            runtime.bad("program", "is empty: name the runtime, such as [\"crun\"]");
        }
        settings.peers().stream()
                .filter(word -> PodSettings.peer(word).isEmpty())
                .forEach(word -> runtime.bad("peers", "'" + word + "' must be " + HostPort.FORM));
        Map<String, PodTemplate> templates = new LinkedHashMap<>();
        Map<String, List<PodTemplate.Share>> shares = new LinkedHashMap<>();
        file.sections(PodKeys.class).forEach((name, section) -> {
            PodTemplate template = template(name, file, section, settings.cgroups());
            shares.forEach((other, theirs) -> requireApart(section, other, template.shares(), theirs));
            shares.put(name, template.shares());
            templates.put(name, template);
        });
        return new PodConfig(templates, settings);
    }

    private static PodTemplate template(
            String name, ConfigFile file, ConfigFile.FileSection<PodKeys> section, PodSettings.Cgroups cgroups) {
        PodKeys keys = section.values();
        PodTemplate.PodNetwork network = keys.network();
        // A name of a network interface that ip(8) does not read as one of its own words.
        if (network.bridge() != null && !network.bridge().matches("[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")) {
            section.bad(
                    "bridge", "must be the name of a network interface, of at most 15 letters, digits, '_', '.', '-'");
        }
        if (!network.macPrefix().matches("[0-9a-f][26ae]:[0-9a-f]{2}")) {
            section.bad("mac_prefix", "must be two bytes such as \"02:50\", the first ending in 2, 6, a or e");
        }
        PodTemplate.PodLimits limits = keys.limits();
        if (cgroups == PodSettings.Cgroups.DISABLED
                && (limits.memory().isPresent() || limits.tasks().isPresent())) {
            section.bad(
                    limits.memory().isPresent() ? "memory" : "tasks",
                    "cannot hold without cgroups: remove it, or set cgroups of [pod_runtime]");
        }
        keys.checkpointer()
                .filter(named -> !CheckpointerConfig.namesIn(file).contains(named))
                .ifPresent(named -> section.bad(
                        "checkpointer", "there is no [checkpointers." + named + "]; write one, or leave it out"));
        requireDirectories(section, "mounts", keys.mounts().mounts());
        requireDirectories(section, "writable_mounts", keys.mounts().writableMounts());
        keys.checkpoints()
                .filter(path -> !path.isAbsolute() || !path.equals(path.normalize()))
                .ifPresent(path -> section.bad("checkpoints", "'" + path + "' must be an absolute path without '..'"));
        keys.copies()
                .filter(path -> !path.isAbsolute() || !path.equals(path.normalize()))
                .ifPresent(path -> section.bad("copies", "'" + path + "' must be an absolute path without '..'"));
        if (keys.copies().isPresent()
                && (keys.checkpoints().isEmpty() || keys.copies().equals(keys.checkpoints()))) {
            section.bad("copies", "must be another directory than checkpoints, which must be there, too");
        }
        if (keys.checkpoints().isPresent() && keys.checkpointer().isEmpty()) {
            section.bad("checkpoints", "has no checkpointer that writes images: name one, or leave it out");
        }
        return new PodTemplate(
                name,
                network,
                shares(section),
                keys.mounts(),
                limits,
                keys.checkpointer(),
                keys.checkpoints(),
                keys.copies(),
                keys.onLoss());
    }

    private static List<PodTemplate.Share> shares(ConfigFile.FileSection<PodKeys> template) {
        int prefix = template.values().network().prefix();
        Optional<Ipv4Address> gateway = template.values().network().gateway();
        List<PodTemplate.Share> shares = new ArrayList<>();
        for (ConfigFile.FileSection<ShareKeys> entry : template.entries(ShareKeys.class)) {
            ShareKeys keys = entry.values();
            Integer uid = entry.here("user", keys.user(), JobUsers::user);
            if (uid != null && uid == 0) {
                entry.bad("user", "is root, who has no pods: name an ordinary user");
            }
            boolean hasBoth = isHost(entry, "first", keys.first(), prefix);
            hasBoth &= isHost(entry, "last", keys.last(), prefix);
            if (!hasBoth) {
                continue;
            }
            PodTemplate.Share share = new PodTemplate.Share(uid == null ? -1 : uid, keys.first(), keys.last());
            if (keys.first().compareTo(keys.last()) > 0) {
                entry.bad("last", "is below first: exchange them");
            } else if (!keys.first().sharesNetwork(keys.last(), prefix)) {
                entry.bad("last", "is in another network than first: correct it, or prefix");
            } else if (gateway.isPresent() && share.overlaps(new PodTemplate.Share(0, gateway.get(), gateway.get()))) {
                entry.bad("first", "the gateway's address is among them: leave it out");
            } else if (shares.stream().anyMatch(share::overlaps)) {
                entry.bad("first", "some of these addresses stand in another entry: give each to one user");
            } else {
                shares.add(share);
            }
        }
        return shares;
    }

    /** Returns true if a host can have the address. Reports an address that no host can have. */
    private static boolean isHost(
            ConfigFile.FileSection<ShareKeys> entry, String key, Ipv4Address address, int prefix) {
        if (address != null && !address.isHost(prefix)) {
            entry.bad(key, "must be the IPv4 address of a host, such as \"10.20.0.10\"");
            return false;
        }
        return address != null;
    }

    /** Reports overlapping shares: a pod's veth is named after its address, whatever the bridge. */
    private static void requireApart(
            ConfigFile.FileSection<PodKeys> section,
            String other,
            List<PodTemplate.Share> ours,
            List<PodTemplate.Share> theirs) {
        if (ours.stream().anyMatch(one -> theirs.stream().anyMatch(one::overlaps))) {
            section.bad("shares", "some of these addresses are those of [pods." + other + "]: give each out once");
        }
    }

    private static Path path(String word) {
        try {
            return Path.of(word);
        } catch (InvalidPathException e) {
            // It is not absolute, so it is refused.
            return Path.of("");
        }
    }

    private static void requireDirectories(ConfigFile.FileSection<PodKeys> section, String key, List<String> words) {
        for (String word : words) {
            Path path = path(word);
            if (!path.isAbsolute() || path.getParent() == null || !path.equals(path.normalize())) {
                section.bad(key, "'" + word + "' must be an absolute path without '..', and not /");
            } else if (OWN.stream().anyMatch(own -> path.startsWith(own))) {
                section.bad(key, path + " is the pod's own: leave it out");
            }
        }
    }
}
