package io.ppmr.daemon.config.file;

import java.util.List;
import java.util.stream.Collectors;

/** A configuration file that cannot be used, with everything that is wrong in it. */
public final class ConfigException extends Exception {
    private final transient List<Mistake> mistakes;

    /**
     * One thing that is wrong in a configuration file.
     *
     * @param file the file
     * @param line where, from 1; 0 where no line can be named, as for a missing key
     * @param key what it is about, with its section; empty where the file is no TOML
     * @param text what is wrong and what would be right
     */
    public record Mistake(String file, int line, String key, String text) {
        @Override
        public String toString() {
            return file + (line > 0 ? ":" + line : "") + ": " + (key.isEmpty() ? "" : key + ": ") + text;
        }
    }

    public ConfigException(List<Mistake> mistakes) {
        super(mistakes.stream().map(Mistake::toString).collect(Collectors.joining("\n")));
        this.mistakes = List.copyOf(mistakes);
    }

    public List<Mistake> mistakes() {
        return mistakes;
    }
}
