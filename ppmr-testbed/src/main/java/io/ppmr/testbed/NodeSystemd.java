package io.ppmr.testbed;

import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * A systemd that takes the place of a test node's init, and starts services with the limits of ppmr's units. It is made
 * before its node, because its cgroup is removed after the node's end. A testbed closes both. For one thread.
 */
public final class NodeSystemd {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path SYSTEMD = Path.of("/lib/systemd/systemd");
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final String CAPABILITIES = "CapabilityBoundingSet=";
    private static final Pattern LIMITS = Pattern.compile(
            "(?:NoNew|Protect|Restrict|Lock|Keyring|SystemCall|Device|Limit|Tasks|OOMScore|UMask|WorkingDir)\\w*=.*");

    private final String cgroup;

    /**
     * Makes it, without starting it.
     *
     * @param name the node's name
     */
    public NodeSystemd(Testbed testbed, String name) throws IOException {
        cgroup = "ppmr-" + name + "-" + ProcessHandle.current().pid();
        testbed.add(this::removeCgroup);
    }

    /** Returns true if systemd is installed here. It need not run. */
    public static boolean isPossible() {
        return Files.isExecutable(SYSTEMD);
    }

    /**
     * Boots the node, and waits until that is done. What is started in it later is in its cgroup namespace, and its
     * services have the limits of their units.
     */
    public void boot(TestNode node) throws Exception {
        node.replaceInit(List.of(
                "bash", HOME.resolve("ppmr-testbed/src/main/sh/systemd-node.sh").toString(), cgroup));
        // CRIU and the job must be in one cgroup namespace.
        List<String> booted = Command.words(
                "sh -c %s",
                "systemctl is-active --quiet ppmr-node.target || { systemctl --failed; cat /run/init.log; false; }");
        Conditions.until(
                LIMIT,
                "systemd has booted",
                () -> Command.of(node.command(booted).command()).run(LIMIT).exitCode() == 0);
        node.startBy(Command.words("nsenter --target 1 --cgroup --"));
        node.startServicesBy(NodeSystemd::asUnit);
    }

    /** Returns the words before the command of a service of this role. */
    private static List<String> asUnit(String role) throws IOException {
        List<String> words =
                new ArrayList<>(Command.words("systemd-run --quiet --wait --pipe --collect --service-type=exec"));
        List<String> capabilities = new ArrayList<>();
        for (String line : Files.readAllLines(HOME.resolve("systemd/ppmr-" + role + ".service"))) {
            // The last one of several properties of that name would count.
            if (line.startsWith(CAPABILITIES)) {
                capabilities.add(line.substring(CAPABILITIES.length()));
            } else if (LIMITS.matcher(line).matches()) {
                words.add("--property=" + line);
            }
        }
        words.add("--property=" + CAPABILITIES + String.join(" ", capabilities));
        for (String variable : List.of("_JAVA_SR_SIGNUM", "MALLOC_ARENA_MAX", "PPMR_HOME")) {
            words.add("--setenv=" + variable + "=" + System.getenv().getOrDefault(variable, ""));
        }
        words.add("--setenv=LC_ALL=C.UTF-8");
        words.add("--setenv=PPMR_COMMANDS=transient");
        words.add("--");
        return words;
    }

    private void removeCgroup() throws IOException {
        try {
            Command.of(List.of("sh", "-c", """
                            root=$(findmnt --noheadings --output TARGET --types cgroup2 | head -n 1)
                            if [ -d "$root/$1" ]; then find "$root/$1" -depth -type d -exec rmdir {} +; fi
                            """, "sh", cgroup)).run(LIMIT).requireOutput();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("cgroup " + cgroup + " is not removed", e);
        }
    }
}
