package io.ppmr.pods;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Writes the runtime's input for a pod: config.json of the OCI runtime specification, and the pod's root directory with
 * its init and empty mount points. It is immutable and safe for any thread.
 *
 * @param folder the pod's folder, which only root can enter
 * @param podInit the program that is its init
 */
record PodBundle(Path folder, Path podInit) {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final String ROOT = "root";
    private static final String PASSABLE = "rwxr-xr-x";
    /** Limit of locked memory. It suffices for programs without devices. The service itself has no limit. */
    private static final long LOCKED_MEMORY_BYTES = 64 << 10;

    private static final Path SETTINGS = Path.of("/proc/sys/net");
    /**
     * The subset of the kernel's settings that a pause of one minute requires. See ip-sysctl in the kernel's
     * documentation.
     */
    private static final List<Setting> NETWORK = List.of(
            // Each attempt to send during a pause counts.
            new Setting("ipv4/tcp_retries2", "200"),
            // Since Linux 6.15: the longest wait between two attempts.
            new Setting("ipv4/tcp_rto_max_ms", "1000"));
    /** Switches IPv6 off for a template that grants only IPv4 addresses. The loopback keeps ::1. */
    private static final List<Setting> WITHOUT_IPV6 = List.of(new Setting("ipv6/conf/default/disable_ipv6", "1"));
    /** Restricts a pod to its granted IPv6 address: no router adds one, and the kernel does not probe for it. */
    private static final List<Setting> WITH_IPV6 = List.of(
            new Setting("ipv6/conf/default/disable_ipv6", "0"),
            new Setting("ipv6/conf/default/accept_ra", "0"),
            new Setting("ipv6/conf/default/accept_dad", "0"));

    private record Setting(String path, String value) {}

    /** Writes the description and the root directory. Throws if pods cannot see a directory of the template. */
    void write(PodRecord pod, PodTemplate template, Collection<Integer> groups, List<String> words, String cgroup)
            throws IOException, RequestException {
        writeRoot(template);
        ArrayNode mounts = MAPPER.createArrayNode();
        mount(mounts, "/proc", "proc", "proc", "nosuid", "noexec", "nodev");
        mount(mounts, "/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev", "ro");
        mount(mounts, "/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k");
        mount(mounts, "/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620");
        mount(
                mounts,
                "/dev/shm",
                "tmpfs",
                "shm",
                "nosuid",
                "nodev",
                "noexec",
                "mode=1777",
                size(template.limits().shm()));
        mount(
                mounts,
                "/tmp",
                "tmpfs",
                "tmp",
                "nosuid",
                "nodev",
                "mode=1777",
                size(template.limits().tmp()));
        for (String directory : template.mounts().mounts()) {
            bind(mounts, Path.of(directory), "ro");
        }
        for (String directory : template.mounts().writableMounts()) {
            bind(mounts, Path.of(directory), "rw");
        }
        ObjectNode config = MAPPER.createObjectNode();
        config.put("ociVersion", "1.0.2").put("hostname", pod.name());
        config.putObject("root").put("path", ROOT).put("readonly", true);
        config.set("process", process(pod, groups, pod.specification().environment(), words));
        config.set("mounts", mounts);
        config.set("linux", linux(template, cgroup, PodRuntime.networkFile(folder)));
        // Without this, a call that is unknown to the runtime would stay allowed.
        config.putObject("annotations").put("run.oci.seccomp_fail_unknown_syscall", "1");
        Files.write(folder.resolve("config.json"), MAPPER.writeValueAsBytes(config));
    }

    /** Makes the root directory with a mount point for each mount. Throws if pods cannot see one of the mounts. */
    Path writeRoot(PodTemplate template) throws IOException, RequestException {
        Path root = Files.createDirectory(folder.resolve(ROOT));
        Files.setPosixFilePermissions(root, PosixFilePermissions.fromString(PASSABLE));
        Path init = Files.copy(podInit, root.resolve(podInit.getFileName()), StandardCopyOption.REPLACE_EXISTING);
        Files.setPosixFilePermissions(init, PosixFilePermissions.fromString("r-xr-xr-x"));
        for (String own : List.of("/proc", "/sys", "/dev", "/tmp")) {
            place(root, Path.of(own));
        }
        requireFit(template);
        for (String directory : template.mounts().all()) {
            place(root, Path.of(directory));
        }
        return root;
    }

    /** Throws for the first directory of the template that pods cannot see. */
    static void requireFit(PodTemplate template) throws IOException, RequestException {
        for (String directory : template.mounts().all()) {
            Optional<String> unfit = whyUnfit(Path.of(directory));
            if (unfit.isPresent()) {
                throw new RequestException("pods of [pods." + template.name() + "] cannot see " + directory + ": "
                        + unfit.get() + ". Remedy: correct its mounts and writable_mounts");
            }
        }
    }

    private static Stream<Setting> settings(PodTemplate template) {
        return Stream.concat(
                NETWORK.stream(), (template.network().network6().isPresent() ? WITH_IPV6 : WITHOUT_IPV6).stream());
    }

    /** Lists the commands of sh(1) that set the network of a pod, from inside. */
    static List<String> networkSettings(PodTemplate template) {
        return settings(template)
                .filter(setting -> Files.exists(SETTINGS.resolve(setting.path()), LinkOption.NOFOLLOW_LINKS))
                .map(setting -> "echo " + setting.value() + " >" + SETTINGS.resolve(setting.path()))
                .toList();
    }

    /** Writes the description of a further command in the pod, and returns the file. */
    Path writeProcess(PodRecord pod, Collection<Integer> groups, List<String> environment, List<String> words)
            throws IOException {
        Path file = Files.createTempFile(folder, "exec-", ".json");
        Files.write(file, MAPPER.writeValueAsBytes(process(pod, groups, environment, words)));
        return file;
    }

    private static String size(long bytes) {
        return "size=" + bytes;
    }

    private static void mount(ArrayNode mounts, String destination, String type, String source, String... options) {
        ObjectNode mount = mounts.addObject();
        mount.put("destination", destination).put("type", type).put("source", source);
        ArrayNode all = mount.putArray("options");
        List.of(options).forEach(all::add);
    }

    /** Makes a mount point that every user can pass through, whatever the umask of this process. */
    private static void place(Path root, Path directory) throws IOException {
        Path place = root;
        for (Path name : directory) {
            place = place.resolve(name.toString());
            if (!Files.isDirectory(place, LinkOption.NOFOLLOW_LINKS)) {
                Files.createDirectory(place);
                Files.setPosixFilePermissions(place, PosixFilePermissions.fromString(PASSABLE));
            }
        }
    }

    /** Describes a mount of a directory without the mounts below it, which are other filesystems. */
    private static void bind(ArrayNode mounts, Path directory, String access) {
        mount(mounts, directory.toString(), "none", directory.toString(), "bind", access, "nosuid", "nodev");
    }

    /** Returns why a directory is not mounted: if a user can replace it, root would mount another one. */
    private static Optional<String> whyUnfit(Path directory) throws IOException {
        if (!Files.isDirectory(directory)) {
            return Optional.of("it is not a directory of this node");
        }
        for (Path one : List.of(directory, directory.toRealPath())) {
            Optional<WorkDirectories.Changeable> changeable = WorkDirectories.changeable(one.getParent());
            if (changeable.isPresent()) {
                return Optional.of(changeable.get().directory() + " "
                        + changeable.get().reason() + ", who could put another directory in its place");
            }
        }
        return Optional.empty();
    }

    /** Describes a process without privileges, and without the service's environment and limits. */
    private static ObjectNode process(
            PodRecord pod, Collection<Integer> groups, List<String> environment, List<String> words) {
        ObjectNode process = MAPPER.createObjectNode();
        // The runtime would create a missing directory as root.
        process.put("terminal", false)
                .put("cwd", "/")
                .put("noNewPrivileges", true)
                .put("oomScoreAdj", 0);
        ObjectNode user = process.putObject("user");
        user.put("uid", Integer.toUnsignedLong(pod.uid())).put("gid", Integer.toUnsignedLong(pod.gid()));
        ArrayNode additional = user.putArray("additionalGids");
        groups.stream()
                .filter(group -> group != pod.gid())
                .sorted()
                .forEach(group -> additional.add(Integer.toUnsignedLong(group)));
        ArrayNode arguments = process.putArray("args");
        words.forEach(arguments::add);
        ArrayNode variables = process.putArray("env");
        environment.forEach(variables::add);
        ObjectNode capabilities = process.putObject("capabilities");
        for (String set : List.of("bounding", "effective", "inheritable", "permitted", "ambient")) {
            capabilities.putArray(set);
        }
        ArrayNode limits = process.putArray("rlimits");
        limit(limits, "RLIMIT_MEMLOCK", LOCKED_MEMORY_BYTES);
        limit(limits, "RLIMIT_CORE", 0);
        return process;
    }

    private static void limit(ArrayNode limits, String type, long value) {
        limits.addObject().put("type", type).put("soft", value).put("hard", value);
    }

    private static ObjectNode linux(PodTemplate template, String cgroup, Path network) {
        ObjectNode linux = MAPPER.createObjectNode();
        ArrayNode namespaces = linux.putArray("namespaces");
        for (String type : List.of("pid", "ipc", "uts", "mount")) {
            namespaces.addObject().put("type", type);
        }
        namespaces.addObject().put("type", "network").put("path", network.toString());
        linux.put("rootfsPropagation", "rprivate");
        linux.set("seccomp", PodSeccomp.profile());
        if (!cgroup.isEmpty()) {
            linux.put("cgroupsPath", cgroup);
            ObjectNode resources = linux.putObject("resources");
            template.limits()
                    .memory()
                    .ifPresent(bytes -> resources.putObject("memory").put("limit", bytes));
            template.limits()
                    .tasks()
                    .ifPresent(tasks -> resources.putObject("pids").put("limit", tasks));
        }
        return linux;
    }
}
