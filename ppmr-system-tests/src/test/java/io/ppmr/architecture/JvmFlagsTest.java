package io.ppmr.architecture;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.io.IOException;
import java.io.Reader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Tests that this JVM supports the flags of {@code conf/jvm.properties}, and that they are in effect in it. */
class JvmFlagsTest {
    private static final Pattern BOOLEAN_FLAG = Pattern.compile("-XX:([+-])(\\w+)");
    private static final Pattern VALUE_FLAG = Pattern.compile("-XX:(\\w+)=(\\w+)");

    private static Properties file;
    private static List<String> flags;

    @BeforeAll
    static void readFile() throws IOException {
        file = new Properties();
        try (Reader reader = Files.newBufferedReader(
                Path.of(System.getProperty("ppmr.home"), "conf", "jvm.properties"), StandardCharsets.UTF_8)) {
            file.load(reader);
        }
        flags = List.of(file.getProperty("PPMR_JAVA_OPTIONS").trim().split("\\s+"));
    }

    @Test
    void shouldBeInEffectWhenTheJvmIsStartedFromTheFile() {
        List<String> given = ManagementFactory.getRuntimeMXBean().getInputArguments();
        for (String flag : flags) {
            assertTrue(given.contains(flag), () -> flag + " is not among " + given);
        }
    }

    @Test
    void shouldGiveEachVmFlagItsValue() {
        HotSpotDiagnosticMXBean vm = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
        int checked = 0;
        for (String flag : flags) {
            Matcher onOff = BOOLEAN_FLAG.matcher(flag);
            Matcher value = VALUE_FLAG.matcher(flag);
            if (onOff.matches()) {
                String expected = String.valueOf(onOff.group(1).equals("+"));
                assertEquals(expected, vm.getVMOption(onOff.group(2)).getValue(), flag);
                checked++;
            } else if (value.matches()) {
                String expected = value.group(2).replaceFirst("g$", "").replaceFirst("m$", "");
                String actual = vm.getVMOption(value.group(1)).getValue();
                assertEquals(expected, inUnitOf(value.group(2), actual), flag);
                checked++;
            } else {
                assertFalse(flag.startsWith("-XX:"), () -> flag + " has a form that this test cannot check");
            }
        }
        assertTrue(checked > 0, "the file holds no -XX flag");
    }

    @Test
    void shouldSuspendThreadsWithAnotherSignalThanSigusr2() {
        String signal = file.getProperty("_JAVA_SR_SIGNUM");
        assertEquals(signal, System.getenv("_JAVA_SR_SIGNUM"));
        assertTrue(Integer.parseInt(signal) >= 34, "a real-time signal, so that SIGUSR2 stays the job manager's");
    }

    @Test
    void shouldReportNothingOverTheNetwork() {
        assertEquals("true", System.getProperty("chronicle.analytics.disable"));
        assertThrows(
                ClassNotFoundException.class,
                () -> Class.forName("net.openhft.chronicle.analytics.Analytics"),
                "the library that would report is on the class path");
    }

    private static String inUnitOf(String written, String bytes) {
        if (written.endsWith("g")) {
            return String.valueOf(Long.parseLong(bytes) >> 30);
        }
        return written.endsWith("m") ? String.valueOf(Long.parseLong(bytes) >> 20) : bytes;
    }
}
