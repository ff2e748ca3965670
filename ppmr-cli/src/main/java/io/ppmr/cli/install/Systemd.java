package io.ppmr.cli.install;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** What an installation asks of systemd, where it runs. */
final class Systemd {
    private static final long LIMIT_S = 60;
    private static final List<String> UNITS = List.of("ppmr-source.service", "ppmr-target.service");

    private Systemd() {}

    static boolean runs() {
        return Files.isDirectory(Path.of("/run/systemd/system"));
    }

    /** Has it read the units, make the group and the folders. */
    static void readAnew() throws IOException, InterruptedException {
        require(List.of("systemd-sysusers", "/etc/sysusers.d/ppmr.conf"));
        require(List.of("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/ppmr.conf"));
        reload();
    }

    static void reload() throws IOException, InterruptedException {
        require(List.of("systemctl", "daemon-reload"));
    }

    /** Those units that run. */
    static List<String> running() throws IOException, InterruptedException {
        return UNITS.stream().filter(Systemd::isActive).toList();
    }

    private static boolean isActive(String unit) {
        try {
            return run(List.of("systemctl", "is-active", "--quiet", unit)).exitValue() == 0;
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while systemd was asked for " + unit, e);
        }
    }

    private static void require(List<String> command) throws IOException, InterruptedException {
        Process process = run(command);
        if (process.exitValue() != 0) {
            throw new IOException("'" + String.join(" ", command) + "' fails: "
                    + new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip());
        }
    }

    private static Process run(List<String> command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        if (!process.waitFor(LIMIT_S, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IOException("'" + String.join(" ", command) + "' has not ended within " + LIMIT_S + " s");
        }
        return process;
    }
}
