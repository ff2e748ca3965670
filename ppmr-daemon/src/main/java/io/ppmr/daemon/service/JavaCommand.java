package io.ppmr.daemon.service;

import io.ppmr.checkpoint.NativePrograms;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The command that starts a further ppmr: from the launcher's environment, or the command of this JVM.
 *
 * @param words the words before ppmr's own arguments
 */
public record JavaCommand(List<String> words) {
    public JavaCommand {
        words = List.copyOf(words);
    }

    /**
     * Reads the launcher's variables PPMR_JAVA, PPMR_JAVA_OPTIONS and PPMR_CLASSPATH.
     *
     * @param nativePrograms the native helpers for it
     */
    public static JavaCommand from(Map<String, String> environment, Path nativePrograms) {
        List<String> words = new ArrayList<>();
        words.add(environment.getOrDefault("PPMR_JAVA", System.getProperty("java.home") + "/bin/java"));
        String options = environment.get("PPMR_JAVA_OPTIONS");
        words.addAll(
                options == null
                        ? ManagementFactory.getRuntimeMXBean().getInputArguments()
                        : List.of(options.strip().split("\\s+", -1)));
        words.add("-D" + NativePrograms.DIRECTORY_PROPERTY + "=" + nativePrograms);
        words.add("-cp");
        words.add(environment.getOrDefault("PPMR_CLASSPATH", System.getProperty("java.class.path")));
        words.add("io.ppmr.cli.Main");
        return new JavaCommand(words);
    }

    /**
     * Returns the command of a process whose role has options of its own, as the launcher adds them. A later option
     * counts.
     *
     * @param options the role's options, separated by blanks; empty for none
     */
    public JavaCommand withOptions(String options) {
        if (options.isBlank()) {
            return this;
        }
        List<String> more = new ArrayList<>(words);
        more.addAll(words.lastIndexOf("-cp"), List.of(options.strip().split("\\s+", -1)));
        return new JavaCommand(more);
    }

    /** Returns the whole command. */
    public List<String> with(List<String> arguments) {
        List<String> all = new ArrayList<>(words);
        all.addAll(arguments);
        return all;
    }
}
