package io.ppmr.packages;

import io.ppmr.packages.PackageEntry.PackagedFile;
import io.ppmr.packages.PackageEntry.PackagedFolder;
import io.ppmr.packages.PackageEntry.PackagedLink;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.zip.Deflater;
import org.apache.commons.compress.compressors.gzip.GzipCompressorOutputStream;
import org.apache.commons.compress.compressors.gzip.GzipParameters;

/**
 * Lists what is in both packages, with the mode of each file. Modes of the build's files are not used, because they
 * depend on the umask. It is used once, by one thread.
 */
final class PackageContents {
    static final int PROGRAM = 0755;
    static final int DATA = 0644;
    /** No user can trace a process of a program that he cannot read, execve(2). */
    private static final int UNREADABLE_PROGRAM = 0711;

    private static final String UNREADABLE = "ppmr-look";
    private static final String DOCUMENTS = "/usr/share/doc/ppmr";
    /** The pages of people who use the package, and what these link to. */
    private static final List<String> PAGES =
            List.of("admin", "user", "reference", "examples", "img", "internals", "results");
    /** The scripts of the launcher that a package needs. The others are for a tree of sources. */
    private static final List<String> SCRIPTS = List.of("owners.sh", "running.sh", "setup.sh");

    private final Path home;
    private final Path built;
    private final PackageFacts facts;
    private final Map<String, PackageEntry> entries = new TreeMap<>();

    /**
     * @param home the tree of the sources
     * @param built the directory with jars, native programs, pages and the bill of materials. Files that are made here
     *     go to its directory {@code made}
     */
    PackageContents(Path home, Path built, PackageFacts facts) {
        this.home = home;
        this.built = built;
        this.facts = facts;
    }

    /** Returns the entries of a format, sorted by path. The directory of each is before it. */
    List<PackageEntry> all(PackageFormat format) throws IOException {
        entries.clear();
        tree();
        systemd();
        documents();
        pages(format.zshFolder());
        if (format == PackageFormat.DEB) {
            compressed(DOCUMENTS + "/changelog.gz", debianChangelog().getBytes(StandardCharsets.UTF_8));
            file("/usr/share/lintian/overrides/ppmr", DATA, home.resolve("ppmr-product/src/main/lintian/ppmr"));
        }
        folder("/etc/ppmr", PROGRAM);
        entries.put("/usr/bin/ppmr", new PackagedLink("/usr/bin/ppmr", "../lib/ppmr/" + facts.version() + "/ppmr"));
        text(
                facts.tree() + "/package.properties",
                "version=" + facts.version() + "\ncommit=" + facts.commit() + "\ntree=" + treeDigest() + "\n");
        return List.copyOf(entries.values());
    }

    private void tree() throws IOException {
        String tree = facts.tree();
        folder("/usr/lib/ppmr", PROGRAM);
        folder(tree, PROGRAM);
        file(tree + "/ppmr", PROGRAM, home.resolve("ppmr"));
        for (Path jar : files(built.resolve("jars"), ".jar")) {
            file(tree + "/lib/" + jar.getFileName(), DATA, jar);
        }
        for (Path program : files(built.resolve("natives"), "")) {
            String name = program.getFileName().toString();
            if (!name.startsWith(".")) {
                boolean library = name.endsWith(".so");
                int mode = library ? DATA : name.equals(UNREADABLE) ? UNREADABLE_PROGRAM : PROGRAM;
                file(tree + "/native/" + name, mode, program);
            }
        }
        for (String script : SCRIPTS) {
            file(tree + "/scripts/" + script, DATA, home.resolve("scripts").resolve(script));
        }
        file(tree + "/scripts/install-criu.sh", PROGRAM, home.resolve("ppmr-checkpoint/src/main/sh/install-criu.sh"));
        file(tree + "/conf/jvm.properties", DATA, home.resolve("conf/jvm.properties"));
        file(tree + "/conf/commands.txt", DATA, home.resolve("ppmr-cli/src/main/resources/io/ppmr/cli/commands.txt"));
        for (Path module : modules()) {
            for (Path script : files(module.resolve("conf"), ".sh")) {
                file(tree + "/conf/" + script.getFileName(), PROGRAM, script);
                // For configurations and jobs' scripts, which name no version.
                String link = "/usr/lib/ppmr/" + script.getFileName();
                entries.put(link, new PackagedLink(link, facts.version() + "/conf/" + script.getFileName()));
            }
            for (Path example : files(module.resolve("conf"), ".toml")) {
                // The command line compares a node's configuration with its example.
                file(tree + "/conf/" + example.getFileName(), DATA, example);
                file(DOCUMENTS + "/examples/" + example.getFileName(), DATA, example);
            }
        }
    }

    /** Returns a digest of the tree, by which a copy is known to be of another build of the same version. */
    private String treeDigest() throws IOException {
        MessageDigest digest = PackageDigest.sha256();
        for (PackageEntry entry : entries.values()) {
            if (entry instanceof PackagedFile file && file.path().startsWith(facts.tree())) {
                digest.update(file.path().getBytes(StandardCharsets.UTF_8));
                digest.update(Files.readAllBytes(file.source()));
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    /** Lists the tree's own directory and those of the modules that the packages contain. */
    private List<Path> modules() throws IOException {
        List<Path> modules = new ArrayList<>(List.of(home));
        for (Path jar : files(built.resolve("jars"), "-" + facts.version() + ".jar")) {
            String name = jar.getFileName().toString();
            Path module = home.resolve(
                    name.substring(0, name.length() - facts.version().length() - ".jar".length() - 1));
            if (Files.isDirectory(module)) {
                modules.add(module);
            }
        }
        return modules;
    }

    private void systemd() throws IOException {
        for (Path module : modules()) {
            for (Path unit : files(module.resolve("systemd"), ".service")) {
                text("/usr/lib/systemd/system/" + unit.getFileName(), filled(unit));
            }
        }
        text("/usr/lib/sysusers.d/ppmr.conf", filled(home.resolve("systemd/ppmr.sysusers.conf")));
        text("/usr/lib/tmpfiles.d/ppmr.conf", filled(home.resolve("systemd/ppmr.tmpfiles.conf")));
    }

    private String filled(Path file) throws IOException {
        return Files.readString(file)
                .replace("@PREFIX@/ppmr ", "/usr/bin/ppmr ")
                .replace("@PREFIX@/docs", DOCUMENTS)
                .replace("@PREFIX@", facts.tree())
                .replace("@CONFIG@", "/etc/ppmr");
    }

    private void documents() throws IOException {
        folder(DOCUMENTS, PROGRAM);
        for (String name : PAGES) {
            Path pages = home.resolve("docs").resolve(name);
            try (Stream<Path> walk = Files.walk(pages)) {
                for (Path page : walk.filter(Files::isRegularFile).toList()) {
                    file(DOCUMENTS + "/" + name + "/" + pages.relativize(page), DATA, page);
                }
            }
        }
        for (Path rules : files(home.resolve("conf/monitoring"), "")) {
            file(DOCUMENTS + "/monitoring/" + rules.getFileName(), DATA, rules);
        }
        file(DOCUMENTS + "/CHANGELOG.md", DATA, home.resolve("CHANGELOG.md"));
        file(
                DOCUMENTS + "/copyright",
                DATA,
                home.resolve("ppmr-packages/src/main/resources/io/ppmr/packages/copyright"));
        Path bill = built.resolve("made/ppmr.cdx.json");
        file(DOCUMENTS + "/ppmr.cdx.json", DATA, bill);
        file(DOCUMENTS + "/licences.txt", DATA, built.resolve("made/licences.txt"));
    }

    private String debianChangelog() {
        String day = DateTimeFormatter.RFC_1123_DATE_TIME.format(facts.time().atOffset(ZoneOffset.UTC));
        return PackageFacts.NAME + " (" + facts.version() + ") unstable; urgency=medium\n\n  * " + PackageFacts.CHANGES
                + "\n\n -- " + PackageFacts.MAINTAINER + "  " + changelogDay(day) + "\n";
    }

    /** Debian's changelogs write the zone as a number and the day with two digits. */
    private static String changelogDay(String day) {
        String numbered = day.replace("GMT", "+0000");
        return numbered.charAt(6) == ' ' ? numbered.substring(0, 5) + "0" + numbered.substring(5) : numbered;
    }

    private void pages(String zshFolder) throws IOException {
        Path pages = built.resolve("pages");
        for (String section : List.of("man1", "man5")) {
            for (Path page : files(pages.resolve(section), "")) {
                compressed("/usr/share/man/" + section + "/" + page.getFileName() + ".gz", Files.readAllBytes(page));
            }
        }
        file("/usr/share/bash-completion/completions/ppmr", DATA, pages.resolve("completions/ppmr.bash"));
        file(zshFolder + "/_ppmr", DATA, pages.resolve("completions/ppmr.zsh"));
    }

    /** Lists the files of a directory whose names have this end, sorted. A directory that is missing has none. */
    private static List<Path> files(Path folder, String end) throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> found = Files.list(folder)) {
            return found.filter(Files::isRegularFile)
                    .filter(file -> file.getFileName().toString().endsWith(end))
                    .sorted()
                    .toList();
        }
    }

    private void folder(String path, int mode) {
        entries.put(path, new PackagedFolder(path, mode));
    }

    private void file(String path, int mode, Path source) throws IOException {
        if (!Files.isRegularFile(source)) {
            throw new IOException(source + " is missing, for " + path + ". Remedy: ./ppmr build, then ./ppmr package");
        }
        entries.put(path, new PackagedFile(path, mode, source));
        ownFolders(path);
    }

    /** Directories below the package's own are the package's, too. */
    private void ownFolders(String path) {
        String parent = path.substring(0, path.lastIndexOf('/'));
        if ((parent.startsWith(facts.tree()) || parent.startsWith(DOCUMENTS)) && !entries.containsKey(parent)) {
            folder(parent, PROGRAM);
            ownFolders(parent);
        }
    }

    private void text(String path, String text) throws IOException {
        file(path, DATA, write(path, text.getBytes(StandardCharsets.UTF_8)));
    }

    /** Compresses as Debian requires it for manual pages: as much as possible, without name and time. */
    private void compressed(String path, byte[] bytes) throws IOException {
        GzipParameters parameters = new GzipParameters();
        parameters.setCompressionLevel(Deflater.BEST_COMPRESSION);
        Path file = made(path);
        try (OutputStream out = new GzipCompressorOutputStream(Files.newOutputStream(file), parameters)) {
            out.write(bytes);
        }
        file(path, DATA, file);
    }

    private Path write(String path, byte[] bytes) throws IOException {
        return Files.write(made(path), bytes);
    }

    private Path made(String path) throws IOException {
        Path file = built.resolve("made").resolve(path.substring(1));
        Files.createDirectories(file.getParent());
        return file;
    }
}
