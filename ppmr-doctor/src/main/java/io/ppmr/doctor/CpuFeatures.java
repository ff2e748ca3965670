package io.ppmr.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * The instructions that programs can use, out of what the kernel says of a processor. Most of its flags describe what
 * only the kernel uses, or what a hypervisor hides; they differ between nodes without any harm.
 */
final class CpuFeatures {
    private static final List<String> PREFIXES = List.of("sse", "ssse", "avx", "amx", "fma", "bmi", "sha");
    private static final Set<String> NAMES = Set.of(
            "pni",
            "mmx",
            "3dnow",
            "3dnowext",
            "xop",
            "tbm",
            "f16c",
            "abm",
            "popcnt",
            "movbe",
            "aes",
            "vaes",
            "pclmulqdq",
            "vpclmulqdq",
            "gfni",
            "rdrand",
            "rdseed",
            "adx",
            "rdpid",
            "cx16",
            "xsave",
            "xsavec",
            "xsaveopt",
            "pku",
            "ospke",
            "fsgsbase",
            "rdtscp",
            "erms",
            "fsrm",
            "clflushopt",
            "clwb",
            "movdiri",
            "movdir64b",
            "serialize",
            "rtm",
            "hle",
            "lahf_lm");

    private CpuFeatures() {}

    /** Those of {@code /proc/cpuinfo}, proc(5), sorted: the line "flags" on x86, "Features" on arm64. */
    static List<String> of(List<String> cpuinfo) {
        for (String line : cpuinfo) {
            int colon = line.indexOf(':');
            if (colon > 0 && line.startsWith("flags")) {
                Set<String> found = new TreeSet<>();
                for (String flag : line.substring(colon + 1).trim().split("\\s+", -1)) {
                    if (NAMES.contains(flag) || PREFIXES.stream().anyMatch(flag::startsWith)) {
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

    /** What the one has and the other lacks. */
    static List<String> missing(List<String> needed, List<String> present) {
        List<String> missing = new ArrayList<>(needed);
        missing.removeAll(present);
        return missing;
    }
}
