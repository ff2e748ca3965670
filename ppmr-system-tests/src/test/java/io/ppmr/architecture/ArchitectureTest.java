package io.ppmr.architecture;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchRule;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class ArchitectureTest {
    private static final String ROOT = "io.ppmr";
    private static final String VIOLATING = "io.ppmr.architecture.violating";

    /** The benchmarks and the tool that makes packages are beside the product. Nothing depends on them. */
    private static final Set<String> BESIDE = Set.of("bench", "packages");

    private static JavaClasses product;
    private static JavaClasses violating;

    @BeforeAll
    static void importClasses() {
        product = new ClassFileImporter()
                .withImportOption(new ImportOption.DoNotIncludeTests())
                // The suite that every transport passes is in a jar of tests.
                .withImportOption(location -> !location.contains("-tests.jar"))
                .importPackages(ROOT);
        violating = new ClassFileImporter().importPackages(VIOLATING);
    }

    @Test
    void shouldSeeEveryModuleThatHasClasses() throws IOException {
        Path home = Path.of(System.getProperty("ppmr.home"));
        Set<String> withSources = new TreeSet<>();
        for (String module : ArchitectureRules.MAY_USE.keySet()) {
            if (!BESIDE.contains(module) && hasClasses(home.resolve("ppmr-" + module + "/target/classes"))) {
                withSources.add(module);
            }
        }
        Set<String> seen = product.stream()
                .map(type -> type.getPackageName().substring(ROOT.length() + 1).replaceFirst("\\..*", ""))
                .filter(module -> !BESIDE.contains(module))
                .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(withSources, seen, "modules with classes, and packages seen here; is a dependency missing?");
    }

    @Test
    void shouldPointOneWayWhenModulesUseEachOther() {
        ArchitectureRules.modulesPointOneWay(ROOT).check(product);
    }

    @Test
    void shouldHaveNoCycleOfPackages() {
        ArchitectureRules.packagesHaveNoCycles(ROOT).check(product);
    }

    @Test
    void shouldKeepSourceAndTargetApart() {
        for (String end : List.of("source", "target")) {
            String other = end.equals("source") ? "target" : "source";
            for (String plane : List.of("", "migration.")) {
                ArchitectureRules.neverTouches(ROOT, plane + end, other).check(product);
                ArchitectureRules.neverTouches(ROOT, plane + end, "migration." + other)
                        .check(product);
            }
        }
    }

    @Test
    void shouldKnowNoOptionalPartInTheCore() {
        for (String module : ArchitectureRules.MAY_USE.keySet()) {
            for (String part : ArchitectureRules.PARTS) {
                if (!module.equals(part)) {
                    ArchitectureRules.neverTouches(ROOT, module, part).check(product);
                }
            }
        }
        ArchitectureRules.coreIsNamedAfterNoPart(
                        ROOT, "io\\.ppmr\\.protocol\\.control\\.Pod(Facts|Specification|Addresses)")
                .check(product);
    }

    /** Only what a part adds to the testbed may use it. */
    @Test
    void shouldKeepPartsApartFromTheTestbed() {
        for (String part : ArchitectureRules.PARTS) {
            noClasses()
                    .that()
                    .resideInAPackage(ROOT + "." + part)
                    .should()
                    .dependOnClassesThat()
                    .resideInAnyPackage(ROOT + ".testbed..", ROOT + "." + part + ".testbed..")
                    .allowEmptyShould(true)
                    .check(product);
        }
    }

    @Test
    void shouldKeepTheControlPlanesMessagesOutOfTheDataPlane() {
        for (String module : List.of("transport", "source", "target", "fuse", "bufferpool")) {
            ArchitectureRules.neverTouches(ROOT, module, "protocol.control").check(product);
        }
    }

    @Test
    void shouldKeepJnrFuseInItsModule() {
        ArchitectureRules.onlyIn(ROOT, "fuse", "ru.serce.jnrfuse..").check(product);
        // Calls of the C library are all in one place. FUSE has a library of its own.
        ArchitectureRules.onlyInThese(ROOT, List.of("fuse", "linux"), "jnr..", "com.kenai..")
                .check(product);
    }

    @Test
    void shouldKeepDisniInItsPackage() {
        ArchitectureRules.onlyIn(ROOT, "transport.rdma", "com.ibm.disni..").check(product);
    }

    @Test
    void shouldKeepBouncyCastleInItsPackage() {
        ArchitectureRules.onlyIn(ROOT, "transport.auth", "org.bouncycastle..").check(product);
    }

    @Test
    void shouldKeepOpenTelemetryInItsPart() {
        ArchitectureRules.onlyIn(ROOT, "tracing", "io.opentelemetry..").check(product);
    }

    @Test
    void shouldNeedOnlyTheJdkTheSystemAndTheLogWhenCheckpointing() {
        ArchitectureRules.needsOnly(
                        ROOT, "checkpoint", "java..", "org.slf4j..", ROOT + ".linux..", ROOT + ".protocol.data..")
                .check(product);
    }

    @Test
    void shouldFailWhenSourceAndTargetTouch() {
        requireViolation(ArchitectureRules.neverTouches(VIOLATING, "source", "target"), "SourceUsingTarget");
        requireViolation(ArchitectureRules.neverTouches(VIOLATING, "target", "source"), "TargetUsingSource");
        requireViolation(ArchitectureRules.modulesPointOneWay(VIOLATING), "SourceUsingTarget");
    }

    @Test
    void shouldFailWhenTheCoreUsesAPart() {
        requireViolation(ArchitectureRules.neverTouches(VIOLATING, "daemon", "pods"), "DaemonUsingPod");
        requireViolation(ArchitectureRules.modulesPointOneWay(VIOLATING), "DaemonUsingPod");
        requireViolation(ArchitectureRules.coreIsNamedAfterNoPart(VIOLATING, "none"), "DaemonUsingPod");
    }

    @Test
    void shouldFailWhenPackagesUseEachOther() {
        requireViolation(ArchitectureRules.packagesHaveNoCycles(VIOLATING), "SourceUsingTarget");
    }

    @Test
    void shouldFailWhenALowerModuleUsesAHigherOne() {
        requireViolation(ArchitectureRules.modulesPointOneWay(VIOLATING), "FuseUsingTransport");
    }

    @Test
    void shouldFailWhenALibraryIsSeenOutsideItsOwner() {
        // java.util.zip stands in for the library, because the real ones are not on the class path.
        requireViolation(ArchitectureRules.onlyIn(VIOLATING, "fuse", "java.util.zip.."), "TransportUsingLibrary");
        requireViolation(
                ArchitectureRules.onlyInThese(VIOLATING, List.of("fuse", "source"), "java.util.zip.."),
                "TransportUsingLibrary");
        requireViolation(ArchitectureRules.needsOnly(VIOLATING, "transport", "java.lang.."), "TransportUsingLibrary");
    }

    private static void requireViolation(ArchRule rule, String culprit) {
        String report = rule.evaluate(violating).getFailureReport().toString();
        assertTrue(report.contains(culprit), () -> "a rule that finds nothing in a tree made to break it: " + report);
    }

    private static boolean hasClasses(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return false;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            return files.anyMatch(file -> file.toString().endsWith(".class"));
        }
    }
}
