package io.ppmr.cli.install;

import io.ppmr.daemon.part.ServicePart;
import io.ppmr.linux.Command;
import io.ppmr.linux.Folders;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * An installed tree of ppmr, with its units and its configuration. Files are installed by a rename, so that a running
 * service keeps its open files. A file that an operator changed is never overwritten or removed. It is used once, by
 * one thread.
 */
public final class Installation {
    private static final String PROGRAM = "rwxr-xr-x";
    private static final String DATA = "rw-r--r--";
    private static final Pattern SYSTEMD_RELEASE = Pattern.compile("^systemd (\\d{1,9})\\b");
    private static final Duration SYSTEMD_LIMIT = Duration.ofSeconds(60);
    private static final List<String> UNIT_NAMES = List.of("ppmr-source.service", "ppmr-target.service");
    /** A module that has this is an optional part of the services. */
    private static final String PART = "src/main/resources/META-INF/services/" + ServicePart.class.getName();

    private static final String CRIU_INSTALLER = "ppmr-checkpoint/src/main/sh/install-criu.sh";
    private static final String COMMAND_LIST = "ppmr-cli/src/main/resources/io/ppmr/cli/commands.txt";
    private static final Path UNITS = Path.of("/etc/systemd/system");
    private static final Path MODULES = Path.of("/etc/modules-load.d/ppmr.conf");
    private static final Path CONFIG = Path.of("/etc/ppmr");

    private final Path root;
    private final Path prefix;
    private final int systemdRelease;
    private final Consumer<String> notes;
    private boolean dry;
    private final InstallManifest manifest = new InstallManifest();
    private InstallManifest before = new InstallManifest();

    /**
     * @param root the folder that replaces {@code /}: another folder is the root of a package
     * @param prefix the tree's place, as the units will name it
     * @param systemdRelease the release of systemd on the node of the units; lines that it does not support are left
     *     out
     * @param notes receives notes for people
     */
    public Installation(Path root, Path prefix, int systemdRelease, Consumer<String> notes) {
        this.root = root;
        this.prefix = prefix;
        this.systemdRelease = systemdRelease;
        this.notes = notes;
    }

    /** Opens an existing installation, for an inspection or a removal. */
    public Installation(Path root, Path prefix, Consumer<String> notes) {
        this(root, prefix, Integer.MAX_VALUE, notes);
    }

    /** From now on it changes nothing, and names each file that would be written or removed. */
    public void dryRun() {
        dry = true;
    }

    private Path at(Path path) {
        return root.resolve(Path.of("/").relativize(path));
    }

    private Path manifestFile() {
        return at(prefix.resolve(InstallManifest.NAME));
    }

    public boolean exists() {
        return Files.exists(manifestFile());
    }

    /**
     * Puts everything in place. Files of an older installation that are not in this one are removed.
     *
     * @param generated the texts of manual pages and completions, by their places
     */
    public void install(Path home, Map<Path, String> generated) throws IOException {
        before = InstallManifest.read(manifestFile());
        before.folders().forEach(manifest::addFolder);
        tree(home);
        Set<String> modules = new TreeSet<>();
        for (String unit : UNIT_NAMES) {
            unit(home.resolve("systemd").resolve(unit), UNITS.resolve(unit), modules);
        }
        for (Path part : parts(home)) {
            for (Path unit : entries(part.resolve("systemd"))) {
                unit(unit, UNITS.resolve(unit.getFileName()), modules);
            }
            for (Path file : entries(part.resolve("conf"))) {
                if (file.getFileName().toString().endsWith(".toml")) {
                    config(file, CONFIG.resolve(file.getFileName()));
                }
            }
        }
        modules(modules);
        text(home.resolve("systemd/ppmr.sysusers.conf"), Path.of("/etc/sysusers.d/ppmr.conf"));
        text(home.resolve("systemd/ppmr.tmpfiles.conf"), Path.of("/etc/tmpfiles.d/ppmr.conf"));
        for (String file : List.of("source.toml", "target.toml")) {
            config(home.resolve("conf").resolve(file), CONFIG.resolve(file));
        }
        for (Map.Entry<Path, String> made : generated.entrySet()) {
            put(made.getValue().getBytes(StandardCharsets.UTF_8), made.getKey(), DATA);
        }
        for (Map.Entry<Path, String> old : before.files().entrySet()) {
            if (!manifest.files().containsKey(old.getKey())) {
                takeAway(before, old.getKey());
            }
        }
        if (!dry) {
            manifest.write(manifestFile());
        }
    }

    private void tree(Path home) throws IOException {
        copy(home.resolve("ppmr"), prefix.resolve("ppmr"), true);
        copy(home.resolve("conf/jvm.properties"), prefix.resolve("conf/jvm.properties"), false);
        scripts(home.resolve("conf"));
        copyAll(home.resolve("scripts"), prefix.resolve("scripts"));
        copyIfThere(home.resolve(CRIU_INSTALLER), prefix.resolve("scripts/install-criu.sh"));
        copyIfThere(home.resolve(COMMAND_LIST), prefix.resolve("conf/commands.txt"));
        for (String file : List.of("conf/monitoring/ppmr-alerts.yml", "conf/monitoring/ppmr-dashboard.json")) {
            copyIfThere(home.resolve(file), prefix.resolve(file));
        }
        copyAll(home.resolve("docs"), prefix.resolve("docs"));
        copyAll(home.resolve("ppmr-cli/target/lib"), prefix.resolve("lib"));
        jar(home.resolve("ppmr-cli"));
        for (Path module : entries(home)) {
            copyAll(module.resolve("target/native"), prefix.resolve("native"));
            if (Files.exists(module.resolve(PART))) {
                jar(module);
                copyAll(module.resolve("target/lib"), prefix.resolve("lib"));
                scripts(module.resolve("conf"));
            }
        }
    }

    /** Lists the folders of the optional parts. */
    private static List<Path> parts(Path home) throws IOException {
        return entries(home).stream()
                .filter(module -> Files.exists(module.resolve(PART)))
                .toList();
    }

    private void copyIfThere(Path from, Path to) throws IOException {
        if (Files.exists(from)) {
            copy(from, to, Files.isExecutable(from));
        }
    }

    private void jar(Path module) throws IOException {
        String name = Pattern.quote(module.getFileName().toString());
        for (Path jar : entries(module.resolve("target"))) {
            if (jar.getFileName().toString().matches(name + "-.*\\.jar")) {
                copy(jar, prefix.resolve("lib").resolve(jar.getFileName()), false);
            }
        }
    }

    private void scripts(Path folder) throws IOException {
        for (Path script : entries(folder)) {
            if (script.toString().endsWith(".sh")) {
                copy(script, prefix.resolve("conf").resolve(script.getFileName()), true);
            }
        }
    }

    private void copyAll(Path from, Path to) throws IOException {
        for (Path entry : entries(from)) {
            Path place = to.resolve(entry.getFileName());
            if (Files.isDirectory(entry)) {
                copyAll(entry, place);
            } else {
                copy(entry, place, Files.isExecutable(entry));
            }
        }
    }

    private static List<Path> entries(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.sorted().toList();
        }
    }

    private void copy(Path from, Path to, boolean executable) throws IOException {
        // Other users cannot trace a process of a program that they cannot read, execve(2). So the mode stays.
        boolean closed = executable && !Files.getPosixFilePermissions(from).contains(PosixFilePermission.OTHERS_READ);
        put(Files.readAllBytes(from), to, closed ? "rwx--x--x" : executable ? PROGRAM : DATA);
    }

    /**
     * Installs a unit without the lines that this release of systemd does not support.
     *
     * @param modules receives the modules that the unit cannot load on that release
     */
    private void unit(Path from, Path to, Set<String> modules) throws IOException {
        UnitText whole = UnitText.of(filled(from));
        UnitText known = whole.forSystemd(systemdRelease);
        String missing = whole.missingIn(known);
        if (!missing.isEmpty()) {
            notes.accept(at(to) + " is for systemd " + systemdRelease + ": left out are " + missing
                    + (systemdRelease < UnitText.TRANSIENT_COMMANDS
                            ? "; commands are the service's children (docs/internals/systemd.md)"
                            : ""));
        }
        modules.addAll(whole.modules());
        modules.removeAll(known.modules());
        put(known.text().getBytes(StandardCharsets.UTF_8), to, DATA);
    }

    /** Loads modules at boot if units cannot load them. See modules-load.d(5). */
    private void modules(Set<String> modules) throws IOException {
        if (modules.isEmpty()) {
            return;
        }
        String text = "# For the devices of RDMA and of the management controller. Take out what this node has not.\n"
                + String.join("\n", modules) + "\n";
        put(text.getBytes(StandardCharsets.UTF_8), MODULES, DATA);
        notes.accept(at(MODULES) + " loads " + String.join(", ", modules) + " at the next boot, since systemd "
                + systemdRelease + " has no modprobe@.service; until then: modprobe -a " + String.join(" ", modules));
    }

    private void text(Path from, Path to) throws IOException {
        put(filled(from).getBytes(StandardCharsets.UTF_8), to, DATA);
    }

    /** A unit or the like, which names the tree. */
    private String filled(Path from) throws IOException {
        return Files.readString(from).replace("@PREFIX@", prefix.toString()).replace("@CONFIG@", CONFIG.toString());
    }

    /** Configuration files are examples until they are changed. Changed files are kept. */
    private void config(Path from, Path to) throws IOException {
        Path place = at(to);
        boolean theirs = Files.exists(place) && (!before.files().containsKey(place) || before.isChanged(place));
        if (theirs) {
            notes.accept(place + " is kept as it is; the new example is " + prefix.resolve("conf"));
        }
        copy(from, prefix.resolve("conf").resolve(to.getFileName()), false);
        if (!theirs) {
            copy(from, to, false);
        } else if (before.files().containsKey(place)) {
            manifest.addFile(place, before.files().get(place));
        }
    }

    private void put(byte[] bytes, Path to, String permissions) throws IOException {
        Path place = at(to);
        if (dry) {
            notes.accept("would write " + place);
            manifest.addFile(place, "");
            return;
        }
        makeFolder(place.getParent());
        Path fresh = place.resolveSibling("." + place.getFileName() + ".ppmr-install");
        Files.write(fresh, bytes);
        Files.setPosixFilePermissions(fresh, PosixFilePermissions.fromString(permissions));
        Files.move(fresh, place, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        manifest.addFile(place, InstallManifest.hash(place));
    }

    private void makeFolder(Path folder) throws IOException {
        List<Path> missing = new ArrayList<>();
        for (Path one = folder; one != null && !Files.exists(one); one = one.getParent()) {
            missing.add(0, one);
        }
        for (Path one : missing) {
            Folders.create(one, Folders.PASSABLE);
            manifest.addFolder(one);
        }
    }

    /** Removes what the manifest names. A file that was changed since stays, and is named. */
    public void uninstall() throws IOException {
        InstallManifest installed = InstallManifest.read(manifestFile());
        // The program that does this may run out of the tree: its own jars go last.
        List<Path> files = new ArrayList<>(installed.files().keySet());
        Path jars = at(prefix.resolve("lib"));
        files.sort(Comparator.comparing(file -> file.startsWith(jars)));
        for (Path file : files) {
            takeAway(installed, file);
        }
        if (dry) {
            return;
        }
        Files.deleteIfExists(manifestFile());
        List<Path> folders = new ArrayList<>(installed.folders());
        folders.sort(Comparator.comparing(Path::getNameCount).reversed());
        for (Path folder : folders) {
            try {
                Files.deleteIfExists(folder);
            } catch (DirectoryNotEmptyException e) {
                notes.accept(folder + " stays: there is something in it that was not installed");
            }
        }
    }

    private void takeAway(InstallManifest installed, Path file) throws IOException {
        if (installed.isChanged(file)) {
            notes.accept(file + " stays: it was changed after it was installed");
        } else if (dry) {
            notes.accept("would remove " + file);
        } else {
            Files.deleteIfExists(file);
        }
    }

    /** Returns how many files an uninstallation would remove. */
    public int fileCount() throws IOException {
        return InstallManifest.read(manifestFile()).files().size();
    }

    /** Returns true if systemd runs here. */
    public static boolean hasSystemd() {
        return Files.isDirectory(Path.of("/run/systemd/system"));
    }

    /** Has it read the units, make the group and the folders. */
    public static void prepareSystemd() throws IOException, InterruptedException {
        makeGroup();
        run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/ppmr.conf").requireOutput();
        reloadSystemd();
    }

    /** Without systemd-sysusers(8), which distributions leave out of old releases, by groupadd(8). */
    private static void makeGroup() throws IOException, InterruptedException {
        try {
            run("systemd-sysusers", "/etc/sysusers.d/ppmr.conf").requireOutput();
        } catch (IOException e) {
            try {
                run("groupadd", "--force", "--system", "ppmr").requireOutput();
            } catch (IOException second) {
                e.addSuppressed(second);
                throw e;
            }
        }
    }

    /** Returns the release of systemd that is installed here. Without systemd, returns the newest supported release. */
    public static int systemdRelease() throws InterruptedException {
        try {
            return systemdRelease(run("systemctl", "--version").output());
        } catch (IOException none) {
            return Integer.MAX_VALUE;
        }
    }

    static int systemdRelease(String output) {
        Matcher found = SYSTEMD_RELEASE.matcher(output);
        return found.find() ? Integer.parseInt(found.group(1)) : Integer.MAX_VALUE;
    }

    public static void reloadSystemd() throws IOException, InterruptedException {
        run("systemctl", "daemon-reload").requireOutput();
    }

    private static Command.CommandResult run(String... words) throws IOException, InterruptedException {
        return Command.of(List.of(words)).run(SYSTEMD_LIMIT);
    }

    /** Returns the running units. */
    public static List<String> runningUnits() throws IOException, InterruptedException {
        List<String> running = new ArrayList<>();
        for (String unit : UNIT_NAMES) {
            if (run("systemctl", "is-active", "--quiet", unit).succeeded()) {
                running.add(unit);
            }
        }
        return running;
    }
}
