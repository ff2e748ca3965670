package io.ppmr.cli.install;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A unit without the lines that a node's systemd does not support. Otherwise its journal would have warnings about
 * lines without effect. It is immutable.
 *
 * <p>Before 243, systemd-run(1) lacks options of the commands ({@code --pipe} is of 235, {@code --collect} of 236,
 * {@code OOMPolicy} of 243). Therefore commands are then children of the service. The commands, and the ranks that they
 * start, are in its group and have its restrictions. Therefore no process kills them when the service ends
 * ({@code KillMode=process}). No restriction is set that would apply to a job. A service that cannot request more time
 * to start (before 236) gets all of it at once. Modules that it loads by {@code modprobe@.service}, which is of 245,
 * are named by {@link #modules} instead, for modules-load.d(5).
 */
record UnitText(List<String> lines) {
    /** The first release of systemd that starts commands in transient services as is needed here. */
    static final int TRANSIENT_COMMANDS = 243;

    /** The first release that loads the modules which a unit names. */
    static final int MODULES_BY_UNIT = 245;

    private static final Pattern MODULE = Pattern.compile("modprobe@(\\w+)\\.service");

    /** The first release that supports a line. Lines that the oldest supported release (219) has are not listed. */
    private static final Map<String, Integer> SINCE = Map.ofEntries(
            Map.entry("StartLimitIntervalSec", 230),
            Map.entry("StartLimitBurst", 230),
            Map.entry("TimeoutAbortSec", 243),
            Map.entry("TasksMax", 227),
            Map.entry("ProtectClock", 245),
            Map.entry("ProtectHostname", 242),
            Map.entry("RestrictNamespaces", 233),
            Map.entry("RestrictRealtime", 231),
            Map.entry("RestrictSUIDSGID", 242),
            Map.entry("LockPersonality", 235),
            Map.entry("KeyringMode", 235),
            // The group @system-service.
            Map.entry("SystemCallFilter", 239),
            Map.entry("SystemCallErrorNumber", 239));

    /** Settings of a unit that its processes inherit, and a job must not. */
    private static final List<String> INHERITED = List.of(
            "CapabilityBoundingSet",
            "NoNewPrivileges",
            "RestrictAddressFamilies",
            "SystemCallArchitectures",
            "DevicePolicy",
            "DeviceAllow",
            "OOMScoreAdjust",
            "LimitCORE",
            "UMask");

    private static final Map<String, String> REPLACED = Map.of(
            "Environment=PPMR_COMMANDS=transient", "Environment=PPMR_COMMANDS=direct",
            "KillMode=mixed", "KillMode=process",
            "TimeoutStartSec=90s", "TimeoutStartSec=6min");

    UnitText {
        lines = List.copyOf(lines);
    }

    static UnitText of(String text) {
        return new UnitText(text.lines().toList());
    }

    /** The unit for a release of systemd. */
    UnitText forSystemd(int release) {
        List<String> kept = new ArrayList<>();
        for (String line : lines) {
            String name = line.contains("=") ? line.substring(0, line.indexOf('=')) : "";
            boolean known = SINCE.getOrDefault(name, 0) <= release
                    && (release >= MODULES_BY_UNIT || !MODULE.matcher(line).find());
            if (release >= TRANSIENT_COMMANDS) {
                if (known) {
                    kept.add(line);
                }
            } else if (known && !INHERITED.contains(name)) {
                kept.add(REPLACED.getOrDefault(line, line));
            }
        }
        return new UnitText(kept);
    }

    /** Returns the kernel modules that the service requires before it starts. */
    Set<String> modules() {
        return lines.stream()
                .flatMap(line -> MODULE.matcher(line).results())
                .map(found -> found.group(1))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** The names of the lines that another one of them does not have. */
    String missingIn(UnitText other) {
        return lines.stream()
                .filter(line -> line.matches("[A-Z][A-Za-z]+=.*"))
                .map(line -> line.substring(0, line.indexOf('=')))
                .distinct()
                .filter(name -> other.lines.stream().noneMatch(line -> line.startsWith(name + "=")))
                .collect(Collectors.joining(", "));
    }

    String text() {
        return lines.stream().map(line -> line + "\n").collect(Collectors.joining());
    }
}
