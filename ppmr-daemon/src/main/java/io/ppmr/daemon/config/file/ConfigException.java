package io.ppmr.daemon.config.file;

import java.util.List;
import java.util.stream.Collectors;

/** A configuration file with mistakes, all of them. */
public final class ConfigException extends Exception {
    private final transient List<Mistake> mistakes;

    /**
     * A mistake in a configuration file.
     *
     * @param file the file
     * @param line its line, from 1, or 0 for no line, as for a missing key
     * @param key its key with the section, or empty if the file is no TOML
     * @param text the mistake and the remedy
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
