package io.ppmr.cli.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Checkpointers by name, for those who want nothing else of a configuration. */
public final class ConfiguredCheckpointers {
    /** The environment's word for CRIU, from the launcher: the words that start it, one a line; empty for none. */
    public static final String CRIU_VARIABLE = "PPMR_CRIU";

    private ConfiguredCheckpointers() {}

    /** Those of a file, whatever role it is for. */
    public static Map<String, Checkpointer> load(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        Map<String, CheckpointerSettings> settings = Checkpointers.read(opened).settings();
        if (!opened.mistakes().isEmpty()) {
            throw new ConfigException(opened.mistakes());
        }
        return Checkpointers.create(settings);
    }

    /** BLCR as it is installed, and CRIU as the launcher found it. */
    public static Map<String, Checkpointer> usual(Map<String, String> environment) {
        Map<String, CheckpointerSettings> settings = new LinkedHashMap<>();
        settings.put("blcr", CheckpointerSettings.Blcr.installed());
        settings.put("criu", CheckpointerSettings.Criu.of(criu(environment)));
        return Checkpointers.create(settings);
    }

    /** The words that start CRIU. */
    public static List<String> criu(Map<String, String> environment) {
        List<String> words = environment
                .getOrDefault(CRIU_VARIABLE, "")
                .lines()
                .filter(word -> !word.isBlank())
                .toList();
        return words.isEmpty() ? List.of("criu") : words;
    }
}
