package io.ppmr.architecture;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.properties.HasName.Predicates.nameMatching;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.library.Architectures.LayeredArchitecture;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The rules about the dependencies between packages. Each rule has its root package as an argument. So a test can apply
 * it to a small tree that breaks it, and check that it fails.
 */
final class ArchitectureRules {
    private static final List<String> BELOW_ALL = List.of("linux", "bufferpool", "protocol");
    private static final List<String> DATA = with(BELOW_ALL, "transport", "fuse");
    private static final List<String> MIGRATION = with(DATA, "source", "target", "checkpoint", "transaction");
    private static final List<String> DAEMON = with(MIGRATION, "migration");
    private static final List<String> CLI = with(DAEMON, "daemon");

    /** The optional parts, by the packages that they own. No module of the core may use one, nor one another. */
    static final List<String> PARTS = List.of("pods", "slurm", "cluster", "tracing");

    /** Every module, by the package it owns under the root, with the modules it may use. */
    static final Map<String, List<String>> MAY_USE = Map.ofEntries(
            Map.entry("linux", List.of()),
            Map.entry("bufferpool", List.of()),
            Map.entry("protocol", List.of()),
            Map.entry("transport", BELOW_ALL),
            Map.entry("fuse", List.of("linux")),
            Map.entry("source", DATA),
            Map.entry("target", DATA),
            Map.entry("checkpoint", List.of("linux", "protocol")),
            Map.entry("transaction", List.of("linux", "protocol")),
            Map.entry("migration", MIGRATION),
            Map.entry("daemon", DAEMON),
            Map.entry("cli", CLI),
            // What a part adds to the testbed is in a package of the part.
            Map.entry("pods", with(CLI, "cli", "testbed")),
            Map.entry("slurm", with(CLI, "cli")),
            Map.entry("cluster", with(CLI, "cli", "testbed")),
            Map.entry("tracing", CLI),
            // It packs files, and knows no class of the product.
            Map.entry("packages", List.of()),
            Map.entry("testbed", with(CLI, "cli")),
            Map.entry("bench", with(CLI, "cli", "testbed")));

    private ArchitectureRules() {}

    private static List<String> with(List<String> modules, String... more) {
        return Stream.concat(modules.stream(), Stream.of(more)).toList();
    }

    /** No package uses, over whatever detour, a package that uses it. */
    static ArchRule packagesHaveNoCycles(String root) {
        return slices().matching(root + ".(**)").should().beFreeOfCycles();
    }

    /** Modules use each other only as {@link #MAY_USE} permits. */
    static ArchRule modulesPointOneWay(String root) {
        LayeredArchitecture layers = layeredArchitecture()
                .consideringOnlyDependenciesInAnyPackage(root + "..")
                .withOptionalLayers(true);
        for (String module : MAY_USE.keySet()) {
            layers = layers.layer(module).definedBy(root + "." + module + "..");
        }
        for (Map.Entry<String, List<String>> entry : MAY_USE.entrySet()) {
            String module = entry.getKey();
            layers = entry.getValue().isEmpty()
                    ? layers.whereLayer(module).mayNotAccessAnyLayer()
                    : layers.whereLayer(module)
                            .mayOnlyAccessLayers(entry.getValue().toArray(String[]::new));
        }
        return layers;
    }

    /** A class of {@code one} never touches a class of {@code other}. */
    static ArchRule neverTouches(String root, String one, String other) {
        return noClasses()
                .that()
                .resideInAPackage(root + "." + one + "..")
                .should()
                .dependOnClassesThat()
                .resideInAPackage(root + "." + other + "..")
                .allowEmptyShould(true);
    }

    /** No class of the core is named after a part, except for {@code allowed}, the messages that nodes exchange. */
    static ArchRule coreIsNamedAfterNoPart(String root, String... allowed) {
        return noClasses()
                .that()
                .resideOutsideOfPackages(
                        PARTS.stream().map(part -> root + "." + part + "..").toArray(String[]::new))
                .and(not(nameMatching(String.join("|", allowed))))
                .should()
                .haveNameMatching(".*\\.[A-Za-z0-9$]*(Pod|Slurm|Cluster)[A-Za-z0-9$]*")
                .allowEmptyShould(true);
    }

    /** The library is seen by classes of the package {@code owner} alone. */
    static ArchRule onlyIn(String root, String owner, String... libraryPackages) {
        return noClasses()
                .that()
                .resideOutsideOfPackage(root + "." + owner + "..")
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(libraryPackages)
                .allowEmptyShould(true);
    }

    /** The library is seen by classes of these packages alone. */
    static ArchRule onlyInThese(String root, List<String> owners, String... libraryPackages) {
        return noClasses()
                .that()
                .resideOutsideOfPackages(
                        owners.stream().map(owner -> root + "." + owner + "..").toArray(String[]::new))
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(libraryPackages)
                .allowEmptyShould(true);
    }

    /** The package {@code module} makes do with itself and these packages. */
    static ArchRule needsOnly(String root, String module, String... packages) {
        String[] allowed = new String[packages.length + 1];
        System.arraycopy(packages, 0, allowed, 0, packages.length);
        allowed[packages.length] = root + "." + module + "..";
        return classes()
                .that()
                .resideInAPackage(root + "." + module + "..")
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(allowed)
                .allowEmptyShould(true);
    }
}
