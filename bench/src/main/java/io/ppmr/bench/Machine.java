package io.ppmr.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Where a result is from.
 *
 * @param device what carries the bytes
 */
record Machine(int cores, String processor, long memoryBytes, String kernel, String jdk, String fuse, String device) {

    static Machine here(String device) throws IOException, InterruptedException {
        return new Machine(
                Runtime.getRuntime().availableProcessors(),
                field("/proc/cpuinfo", "model name"),
                Long.parseLong(field("/proc/meminfo", "MemTotal").replaceAll("\\D", "")) * 1024,
                System.getProperty("os.name") + " " + System.getProperty("os.version"),
                System.getProperty("java.vendor") + " " + System.getProperty("java.runtime.version"),
                fuseVersion(),
                device);
    }

    private static String field(String file, String name) throws IOException {
        for (String line : Files.readAllLines(Path.of(file))) {
            if (line.startsWith(name)) {
                return line.substring(line.indexOf(':') + 1).strip();
            }
        }
        return "0";
    }

    private static String fuseVersion() throws InterruptedException {
        try {
            return "libfuse "
                    + Programs.call(java.util.List.of("dpkg-query", "-W", "-f=${Version}", "libfuse2"))
                            .strip();
        } catch (BenchFailure | IOException e) {
            return "libfuse 2.9 (" + e.getMessage() + ")";
        }
    }
}
