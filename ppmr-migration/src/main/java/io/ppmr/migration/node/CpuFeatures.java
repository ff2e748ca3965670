package io.ppmr.migration.node;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * The instructions that programs can use, from the kernel's list of processor flags. Most flags concern only the
 * kernel, or are hidden by a hypervisor. They differ between nodes without harm.
 */
final class CpuFeatures {
    private static final List<String> PREFIXES = List.of("sse", "ssse", "avx", "amx", "fma", "bmi", "sha");
    private static final Set<String> NAMES =
            Set.of(("pni mmx 3dnow 3dnowext xop tbm f16c abm popcnt movbe aes vaes pclmulqdq "
                            + "vpclmulqdq gfni rdrand rdseed adx rdpid cx16 xsave xsavec xsaveopt pku ospke "
                            + "fsgsbase rdtscp clflushopt clwb movdiri movdir64b serialize rtm hle lahf_lm")
                    .split(" ", -1));
    /** Instructions that only make copies faster. No program depends on them. */
    private static final Set<String> OF_SPEED = Set.of("erms", "fsrm");

    private CpuFeatures() {}

    /**
     * Returns the features in {@code /proc/cpuinfo}, proc(5), sorted. The line is "flags" on x86 and "Features" on
     * arm64.
     */
    static List<String> of(List<String> cpuinfo) {
        for (String line : cpuinfo) {
            int colon = line.indexOf(':');
            if (colon > 0 && line.startsWith("flags")) {
                Set<String> found = new TreeSet<>();
                for (String flag : line.substring(colon + 1).trim().split("\\s+", -1)) {
                    if (NAMES.contains(flag)
                            || OF_SPEED.contains(flag)
                            || PREFIXES.stream().anyMatch(flag::startsWith)) {
                        found.add(flag);
                    }
                }
                return List.copyOf(found);
            }
            if (colon > 0 && line.startsWith("Features")) {
                return new TreeSet<>(List.of(line.substring(colon + 1).trim().split("\\s+", -1)))
                        .stream().toList();
            }
        }
        return List.of();
    }

    /** Returns the features that one has, the other lacks, and a program may have chosen when it was started. */
    static List<String> missing(List<String> needed, List<String> present) {
        return lacking(needed, present, false);
    }

    /** Returns the features that one has and the other lacks, and whose lack only makes a program slower. */
    static List<String> slower(List<String> needed, List<String> present) {
        return lacking(needed, present, true);
    }

    private static List<String> lacking(List<String> needed, List<String> present, boolean ofSpeed) {
        return needed.stream()
                .filter(feature -> !present.contains(feature) && OF_SPEED.contains(feature) == ofSpeed)
                .toList();
    }
}
