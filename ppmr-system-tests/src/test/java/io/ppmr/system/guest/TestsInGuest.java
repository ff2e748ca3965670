package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import io.ppmr.testbed.Patience;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;

/**
 * Runs test classes in one boot of the guest and shows each of their tests as one of its own. Without a guest, each
 * class is skipped with the reason. Blocks its caller until the guest ends.
 */
final class TestsInGuest {
    /** The total time limit of a guest on an otherwise idle machine. */
    static final int LIMIT_S = 840;

    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path LIBRARY = HOME.resolve("ppmr-transport-rdma/target/native");
    /**
     * An emulated processor is several times slower, and tests there have time limits that are longer by that factor.
     */
    private static final int SLOWER = 4;

    private static final int NO_GUEST = 77;
    private static final int COLUMNS = 5;

    private TestsInGuest() {}

    /**
     * Runs them.
     *
     * @param classes their names, full ones for those of other packages
     * @param options further ones of the guest
     */
    static Stream<DynamicTest> run(List<String> classes, List<String> options) throws Exception {
        Path log = Files.createTempFile("ppmr-guest", ".log");
        Process guest = new ProcessBuilder(command(classes, options))
                .redirectError(log.toFile())
                .directory(HOME.toFile())
                .start();
        List<DynamicTest> tests = new ArrayList<>();
        List<String> others = new ArrayList<>();
        try (BufferedReader lines = guest.inputReader(StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] columns = line.split("\t", COLUMNS);
                if (columns.length == COLUMNS && columns[0].equals(RunInGuest.MARK)) {
                    tests.add(DynamicTest.dynamicTest(columns[2], () -> judge(columns)));
                } else {
                    others.add(line);
                    System.out.println(line);
                }
            }
            int status = guest.waitFor();
            String said = Files.readString(log);
            if (status == NO_GUEST) {
                return skipped(classes, said.strip());
            }
            tests.add(DynamicTest.dynamicTest("the guest ends well", () -> {
                assertEquals(0, status, () -> String.join("\n", others) + '\n' + said);
                assertEquals(true, tests.size() > classes.size(), "tests were run");
            }));
            return tests.stream();
        } finally {
            guest.descendants().forEach(ProcessHandle::destroy);
            guest.destroy();
            Files.delete(log);
        }
    }

    private static void judge(String[] columns) {
        if (columns[1].equals("SKIPPED")) {
            Assumptions.abort(columns[2] + ": " + columns[4]);
        }
        if (!columns[1].equals("PASSED")) {
            fail(columns[2] + " in the guest, after " + columns[3] + ": " + columns[4]);
        }
    }

    static Stream<DynamicTest> skipped(List<String> classes, String reason) {
        return classes.stream()
                .map(name -> DynamicTest.dynamicTest(name, () -> Assumptions.abort(name + ": " + reason)));
    }

    /**
     * Our classes, and the benchmarks with the one library that only they need. Without built benchmarks, it has only
     * our classes.
     */
    private static String classPath() throws IOException {
        StringBuilder path = new StringBuilder(System.getProperty("java.class.path"));
        Path bench = HOME.resolve(RdmaBenchInGuest.CLASSES);
        if (Files.isDirectory(bench.resolveSibling("lib"))) {
            path.append(File.pathSeparator).append(bench);
            try (DirectoryStream<Path> jars = Files.newDirectoryStream(bench.resolveSibling("lib"), "jmh-core-*.jar")) {
                jars.forEach(jar -> path.append(File.pathSeparator).append(jar));
            }
        }
        return path.toString();
    }

    private static List<String> command(List<String> classes, List<String> options) throws IOException {
        Properties flags = new Properties();
        try (var in = Files.newInputStream(HOME.resolve("conf/jvm.properties"))) {
            flags.load(in);
        }
        List<String> words = new ArrayList<>(
                List.of(HOME.resolve("ppmr").toString(), "guest", "--timeout", String.valueOf(Patience.of(LIMIT_S))));
        words.addAll(options);
        words.addAll(List.of(
                "--", Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        words.addAll(List.of(flags.getProperty("PPMR_JAVA_OPTIONS").trim().split("\\s+", -1)));
        words.addAll(List.of(
                "-Xmx400m",
                "-XX:TieredStopAtLevel=1",
                "-Djava.library.path=" + LIBRARY,
                "-Dppmr.home=" + HOME,
                "-Dppmr.patience=" + Patience.of(SLOWER),
                "-D" + RunInGuest.EXCLUDED + '=' + System.getProperty(RunInGuest.EXCLUDED),
                // On a machine that is busy otherwise, too, only the whole guest has a deadline.
                "-Djunit.jupiter.execution.timeout.mode=" + (Patience.of(1) == 1 ? "enabled" : "disabled"),
                "-Dppmr.native.dir=" + HOME.resolve("ppmr-checkpoint/target/native"),
                "-Dppmr.demo.dir=" + HOME.resolve("ppmr-checkpoint/target/native-test"),
                "-cp",
                classPath(),
                RunInGuest.class.getName()));
        words.addAll(classes);
        return words;
    }
}
