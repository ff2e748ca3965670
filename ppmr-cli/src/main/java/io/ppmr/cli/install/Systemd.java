package io.ppmr.cli.install;

import io.ppmr.os.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** What an installation asks of systemd, where it runs. */
final class Systemd {
    private static final Duration LIMIT = Duration.ofSeconds(60);
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
        List<String> running = new ArrayList<>();
        for (String unit : UNITS) {
            if (Command.of(List.of("systemctl", "is-active", "--quiet", unit))
                    .run(LIMIT)
                    .succeeded()) {
                running.add(unit);
            }
        }
        return running;
    }

    private static void require(List<String> command) throws IOException, InterruptedException {
        Command.Result result = Command.of(command).run(LIMIT);
        if (!result.succeeded()) {
            throw new IOException(result.describe());
        }
    }
}
