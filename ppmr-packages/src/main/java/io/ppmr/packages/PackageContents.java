package io.ppmr.packages;

import static io.ppmr.packages.EntryList.DATA;
import static io.ppmr.packages.EntryList.PROGRAM;
import static io.ppmr.packages.EntryList.files;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * Lists what is in a package of both formats, with the mode of each file. Modes of the build's files are not used,
 * because they depend on the umask. It is used once, by one thread.
 */
final class PackageContents {
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

    /**
     * @param home the tree of the sources
     * @param built the directory with jars, native programs, pages and the bills of materials. Files that are made here
     *     go to its directory {@code made}
     */
    PackageContents(Path home, Path built, PackageFacts facts) {
        this.home = home;
        this.built = built;
        this.facts = facts;
    }

    private EntryList list(PackageKind kind, String... own) {
        return new EntryList(built.resolve("made").resolve(kind.packageName()), own);
    }

    /** Returns the entries of a package in a format, sorted by path. The directory of each is before it. */
    List<PackageEntry> all(PackageKind kind, PackageFormat format) throws IOException {
        return kind.equals(PackageKind.DEMO) ? demo(format) : product(format);
    }

    private List<PackageEntry> product(PackageFormat format) throws IOException {
        EntryList entries = list(PackageKind.PRODUCT, facts.tree(), DOCUMENTS);
        tree(entries);
        systemd(entries);
        documents(entries);
        pages(entries, format.zshFolder());
        if (format == PackageFormat.DEB) {
            entries.ofDebian(
                    PackageKind.PRODUCT.packageName(), facts, home.resolve("ppmr-product/src/main/lintian/ppmr"));
        }
        entries.folder("/etc/ppmr");
        entries.link("/usr/bin/ppmr", "../lib/ppmr/" + facts.version() + "/ppmr");
        entries.text(
                facts.tree() + "/package.properties",
                "version=" + facts.version() + "\ncommit=" + facts.commit() + "\ntree=" + entries.digest(facts.tree())
                        + "\n");
        return entries.all();
    }

    /** Lists the classes and the jobs of the demo, and the source of a program that an MPI's compiler makes. */
    private List<PackageEntry> demo(PackageFormat format) throws IOException {
        String name = PackageKind.DEMO.packageName();
        String documents = "/usr/share/doc/" + name;
        EntryList entries = list(PackageKind.DEMO, facts.demoTree(), documents);
        entries.folder("/usr/lib/ppmr-demo");
        for (Path jar : files(built.resolve("demo/lib"), ".jar")) {
            entries.file(facts.demoTree() + "/lib/" + jar.getFileName(), DATA, jar);
        }
        for (Path program : programs(built.resolve("demo/native"))) {
            entries.file(facts.demoTree() + "/native/" + program.getFileName(), mode(program), program);
        }
        Path sources = home.resolve("ppmr-pods/src/test/c");
        for (Path source : files(sources, ".c")) {
            entries.file(facts.demoTree() + "/sources/" + source.getFileName(), DATA, source);
        }
        entries.file(documents + "/copyright", DATA, copyright());
        entries.file(documents + "/ppmr-demo.cdx.json", DATA, built.resolve("made/ppmr-demo.cdx.json"));
        if (format == PackageFormat.DEB) {
            entries.ofDebian(name, facts, home.resolve("ppmr-product/src/main/lintian/ppmr-demo"));
        }
        return entries.all();
    }

    /** Lists native programs and libraries. The files about a build are hidden. */
    static List<Path> programs(Path folder) throws IOException {
        return files(folder, "").stream()
                .filter(file -> !file.getFileName().toString().startsWith("."))
                .toList();
    }

    private static int mode(Path program) {
        String name = program.getFileName().toString();
        return name.endsWith(".so") ? DATA : name.equals(UNREADABLE) ? UNREADABLE_PROGRAM : PROGRAM;
    }

    private Path copyright() {
        return home.resolve("ppmr-packages/src/main/resources/io/ppmr/packages/copyright");
    }

    private void tree(EntryList entries) throws IOException {
        String tree = facts.tree();
        entries.folder("/usr/lib/ppmr");
        entries.file(tree + "/ppmr", PROGRAM, home.resolve("ppmr"));
        for (Path jar : files(built.resolve("jars"), ".jar")) {
            entries.file(tree + "/lib/" + jar.getFileName(), DATA, jar);
        }
        for (Path program : programs(built.resolve("natives"))) {
            entries.file(tree + "/native/" + program.getFileName(), mode(program), program);
        }
        for (String script : SCRIPTS) {
            entries.file(
                    tree + "/scripts/" + script, DATA, home.resolve("scripts").resolve(script));
        }
        entries.file(
                tree + "/scripts/install-criu.sh",
                PROGRAM,
                home.resolve("ppmr-checkpoint/src/main/sh/install-criu.sh"));
        entries.file(tree + "/conf/jvm.properties", DATA, home.resolve("conf/jvm.properties"));
        entries.file(
                tree + "/conf/commands.txt",
                DATA,
                home.resolve("ppmr-cli/src/main/resources/io/ppmr/cli/commands.txt"));
        for (Path module : modules()) {
            for (Path script : files(module.resolve("conf"), ".sh")) {
                entries.file(tree + "/conf/" + script.getFileName(), PROGRAM, script);
                // For configurations and jobs' scripts, which name no version.
                entries.link(
                        "/usr/lib/ppmr/" + script.getFileName(), facts.version() + "/conf/" + script.getFileName());
            }
            for (Path example : files(module.resolve("conf"), ".toml")) {
                // The command line compares a node's configuration with its example.
                entries.file(tree + "/conf/" + example.getFileName(), DATA, example);
                entries.file(DOCUMENTS + "/examples/" + example.getFileName(), DATA, example);
            }
        }
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

    private void systemd(EntryList entries) throws IOException {
        for (Path module : modules()) {
            for (Path unit : files(module.resolve("systemd"), ".service")) {
                entries.text("/usr/lib/systemd/system/" + unit.getFileName(), filled(unit));
            }
        }
        entries.text("/usr/lib/sysusers.d/ppmr.conf", filled(home.resolve("systemd/ppmr.sysusers.conf")));
        entries.text("/usr/lib/tmpfiles.d/ppmr.conf", filled(home.resolve("systemd/ppmr.tmpfiles.conf")));
    }

    private String filled(Path file) throws IOException {
        return Files.readString(file)
                .replace("@PREFIX@/ppmr ", "/usr/bin/ppmr ")
                .replace("@PREFIX@/docs", DOCUMENTS)
                .replace("@PREFIX@", facts.tree())
                .replace("@CONFIG@", "/etc/ppmr");
    }

    private void documents(EntryList entries) throws IOException {
        for (String name : PAGES) {
            Path pages = home.resolve("docs").resolve(name);
            try (Stream<Path> walk = Files.walk(pages)) {
                for (Path page : walk.filter(Files::isRegularFile).toList()) {
                    entries.file(DOCUMENTS + "/" + name + "/" + pages.relativize(page), DATA, page);
                }
            }
        }
        for (Path rules : files(home.resolve("conf/monitoring"), "")) {
            entries.file(DOCUMENTS + "/monitoring/" + rules.getFileName(), DATA, rules);
        }
        entries.file(DOCUMENTS + "/CHANGELOG.md", DATA, home.resolve("CHANGELOG.md"));
        entries.file(DOCUMENTS + "/copyright", DATA, copyright());
        entries.file(DOCUMENTS + "/ppmr.cdx.json", DATA, built.resolve("made/ppmr.cdx.json"));
        entries.file(DOCUMENTS + "/licences.txt", DATA, built.resolve("made/licences.txt"));
    }

    private void pages(EntryList entries, String zshFolder) throws IOException {
        Path pages = built.resolve("pages");
        for (String section : List.of("man1", "man5")) {
            for (Path page : files(pages.resolve(section), "")) {
                entries.compressed(
                        "/usr/share/man/" + section + "/" + page.getFileName() + ".gz", Files.readAllBytes(page));
            }
        }
        entries.file("/usr/share/bash-completion/completions/ppmr", DATA, pages.resolve("completions/ppmr.bash"));
        entries.file(zshFolder + "/_ppmr", DATA, pages.resolve("completions/ppmr.zsh"));
    }
}
