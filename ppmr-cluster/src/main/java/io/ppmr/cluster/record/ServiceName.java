package io.ppmr.cluster.record;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The name of a service's record: {@code HOST.ROLE}. Immutable.
 *
 * @param host the node's host name
 * @param role source or target
 */
public record ServiceName(String host, String role) {
    /** The form of a host name, hostname(7). */
    public static final Pattern HOST = Pattern.compile("[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?");

    private static final Pattern NAME = Pattern.compile("(" + HOST.pattern() + ")\\.(source|target)");

    /** Parses a record's name. Returns empty for another form. */
    public static Optional<ServiceName> parse(String text) {
        Matcher name = NAME.matcher(text);
        return name.matches() ? Optional.of(new ServiceName(name.group(1), name.group(3))) : Optional.empty();
    }

    @Override
    public String toString() {
        return host + "." + role;
    }
}
