package io.ppmr.architecture;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.library.Architectures.LayeredArchitecture;
import java.util.List;
import java.util.Map;

/**
 * The rules about who may know whom. Each takes the root package it speaks of, so that a test can turn it on a small
 * tree that breaks it and see that it does fail.
 */
final class ArchitectureRules {
    /** Every module, by the package it owns under the root, with the modules it may use. */
    static final Map<String, List<String>> MAY_USE = Map.ofEntries(
            Map.entry("os", List.of()),
            Map.entry("logging", List.of("os")),
            Map.entry("protocol", List.of()),
            Map.entry("bufferpool", List.of()),
            Map.entry("fuse", List.of("os")),
            Map.entry("checkpoint", List.of("os", "logging")),
            Map.entry("doctor", List.of("protocol", "checkpoint")),
            Map.entry("transaction", List.of("protocol")),
            Map.entry("transport", List.of("protocol", "bufferpool", "logging")),
            Map.entry(
                    "source",
                    List.of(
                            "transport",
                            "protocol",
                            "bufferpool",
                            "fuse",
                            "checkpoint",
                            "doctor",
                            "transaction",
                            "logging",
                            "os")),
            Map.entry(
                    "target",
                    List.of(
                            "transport",
                            "protocol",
                            "bufferpool",
                            "fuse",
                            "checkpoint",
                            "doctor",
                            "transaction",
                            "logging",
                            "os")),
            Map.entry(
                    "cli",
                    List.of(
                            "source",
                            "target",
                            "transport",
                            "protocol",
                            "bufferpool",
                            "fuse",
                            "checkpoint",
                            "doctor",
                            "transaction",
                            "logging",
                            "os")),
            Map.entry(
                    "testbed",
                    List.of(
                            "cli",
                            "source",
                            "target",
                            "transport",
                            "protocol",
                            "bufferpool",
                            "fuse",
                            "checkpoint",
                            "doctor",
                            "transaction",
                            "logging",
                            "os")),
            Map.entry(
                    "bench",
                    List.of(
                            "testbed",
                            "cli",
                            "source",
                            "target",
                            "transport",
                            "protocol",
                            "bufferpool",
                            "fuse",
                            "checkpoint",
                            "doctor",
                            "transaction",
                            "logging",
                            "os")));

    private ArchitectureRules() {}

    /** Modules use each other only as {@link #MAY_USE} says. */
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
