package io.ppmr.cli.config;

import java.util.List;
import java.util.stream.Collectors;

/** A configuration file that cannot be used, with everything that is wrong in it. */
public final class ConfigException extends Exception {
    private final transient List<Mistake> mistakes;

    public ConfigException(List<Mistake> mistakes) {
        super(mistakes.stream().map(Mistake::toString).collect(Collectors.joining("\n")));
        this.mistakes = List.copyOf(mistakes);
    }

    public List<Mistake> mistakes() {
        return mistakes;
    }
}
