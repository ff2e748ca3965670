package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.system.FaultMatrix.Case;
import io.ppmr.system.FaultRig.Shape;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The table of faults ({@link FaultMatrix}) with real services on nodes of their own, real mounts and a real network.
 * The computation ends as promised, and its result is right. {@code -Dppmr.fault=WORDS,WORDS} runs only the cases whose
 * names contain one of them.
 */
@Timeout(value = 150, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FaultMatrixIT {
    @TempDir
    private static Path directory;

    private static FaultRig rig;

    @AfterAll
    static void endNodes() throws Exception {
        dropRig();
    }

    private static void dropRig() throws Exception {
        if (rig != null) {
            FaultRig old = rig;
            rig = null;
            old.close();
        }
    }

    private static Stream<Case> cases(boolean longRun) {
        List<String> words = List.of(System.getProperty("ppmr.fault", "").split(",", -1));
        return FaultMatrix.cases().stream()
                .filter(one ->
                        one.onlyInTheLongRun() == longRun && words.stream().anyMatch(one.toString()::contains));
    }

    private static Stream<Case> usual() {
        return cases(false);
    }

    private static Stream<Case> others() {
        return cases(true);
    }

    @Tag("soak")
    @ParameterizedTest(name = "{0}")
    @MethodSource("usual")
    void shouldEndAsPromisedWhen(Case given) throws Exception {
        run(given);
    }

    @Tag("soak")
    @ParameterizedTest(name = "{0}")
    @MethodSource("others")
    void shouldEndAsPromisedAlsoWhen(Case given) throws Exception {
        run(given);
    }

    @Test
    void shouldStandInTheDocumentationWhenACaseIsAdded() throws Exception {
        Path page = Path.of(System.getProperty("ppmr.home"), "docs/internals/transaction.md");
        assertTrue(Files.readString(page).contains(FaultMatrix.TABLE), page + " is to have the table of FaultMatrix");
    }

    // ---- a case ----------------------------------------------------------------------------------------------------

    private void run(Case given) throws Exception {
        long startNs = System.nanoTime();
        Shape shape = FaultScene.shapeFor(given.fault());
        if (rig != null && !(rig.shape().equals(shape) && rig.isWell())) {
            dropRig();
        }
        if (rig == null) {
            rig = new FaultRig(Files.createTempDirectory(directory, "rig"), shape);
        }
        try (LedgerJob job = rig.job()) {
            new FaultScene(given, rig, job).bringAbout();
            System.out.printf(
                    "fault matrix: %s, as promised (%d ms)%n", given, (System.nanoTime() - startNs) / 1_000_000);
        } catch (Exception | AssertionError e) {
            System.out.printf("fault matrix: %s: BROKEN%n%s%n", given, rig.logs());
            try {
                dropRig();
            } catch (IOException left) {
                e.addSuppressed(left);
            }
            throw e;
        }
        if (!shape.fencedBy().isEmpty() || !rig.isWell()) {
            dropRig();
        }
    }
}
