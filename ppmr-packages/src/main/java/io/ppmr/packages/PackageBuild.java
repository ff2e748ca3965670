package io.ppmr.packages;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/** The program that the build calls: it writes the packages of both formats out of what the build has made. */
public final class PackageBuild {
    private static final List<String> STAGES = List.of("preinst", "postinst", "prerm", "postrm");
    private static final int ARGUMENTS = 5;

    private PackageBuild() {}

    /**
     * Writes the packages.
     *
     * @param arguments the tree, the directory of what was built, version, {@code commit=NAME} and the time of the
     *     commit as ISO 8601 has it
     */
    public static void main(String[] arguments) throws IOException {
        if (arguments.length != ARGUMENTS) {
            throw new IllegalArgumentException("usage: PackageBuild TREE BUILT VERSION commit=COMMIT TIME");
        }
        PackageFacts facts =
                new PackageFacts(arguments[2], arguments[3].substring("commit=".length()), Instant.parse(arguments[4]));
        write(Path.of(arguments[0]), Path.of(arguments[1]), facts);
    }

    private static void write(Path tree, Path built, PackageFacts facts) throws IOException {
        Path made = built.resolve("made");
        clear(made);
        Files.createDirectories(made);
        BillOfMaterials bill = BillOfMaterials.read(built.resolve("bom.json"));
        for (Path program : PackageContents.programs(built.resolve("natives"))) {
            bill.addNative(program, facts.version());
        }
        bill.addCLibrary(Files.readString(built.resolve("natives/.c-library")).strip());
        bill.write(made.resolve("ppmr.cdx.json"));
        Files.writeString(made.resolve("licences.txt"), bill.licences());
        BillOfMaterials demo = BillOfMaterials.read(built.resolve("bom.json"))
                .withoutComponents(PackageKind.DEMO.packageName(), facts.version());
        for (Path own : List.of(built.resolve("demo/lib"), built.resolve("demo/native"))) {
            for (Path file : PackageContents.programs(own)) {
                demo.addNative(file, facts.version());
            }
        }
        demo.write(made.resolve("ppmr-demo.cdx.json"));
        PackageContents contents = new PackageContents(tree, built, facts);
        for (PackageKind kind : PackageKind.ALL) {
            String name = kind.packageName();
            Path deb = built.resolve(name + "_" + facts.version() + "_amd64.deb");
            Path rpm = built.resolve(name + "-" + facts.version() + "-1.x86_64.rpm");
            new DebPackage(kind, facts)
                    .write(
                            contents.all(kind, PackageFormat.DEB),
                            scripts(kind, PackageFormat.DEB, facts),
                            made.resolve(name + "-control"),
                            deb);
            new RpmPackage(kind, facts)
                    .write(contents.all(kind, PackageFormat.RPM), scripts(kind, PackageFormat.RPM, facts), rpm);
        }
    }

    /**
     * The scripts that a package manager calls. They have one text, which begins with its format and its stage. The
     * demo has none: it starts nothing, and keeps nothing.
     */
    private static Map<String, String> scripts(PackageKind kind, PackageFormat format, PackageFacts facts)
            throws IOException {
        if (kind.equals(PackageKind.DEMO)) {
            return Map.of();
        }
        String text;
        try (InputStream in = PackageBuild.class.getResourceAsStream("/io/ppmr/packages/maintainer.sh")) {
            text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
        Map<String, String> scripts = new TreeMap<>();
        for (String stage : STAGES) {
            scripts.put(
                    stage,
                    text.replace("@FORMAT@", format.word())
                            .replace("@STAGE@", stage)
                            .replace("@VERSION@", facts.version()));
        }
        return scripts;
    }

    private static void clear(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }
}
