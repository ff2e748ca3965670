package io.ppmr.checkpoint;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Converts the names that CRIU gives to unnamed files while it restores them. The copy has the file open by such a
 * name, which is removed by then. Stateless, for any thread.
 */
final class CriuNames {
    private static final Pattern MADE_BY_CRIU =
            Pattern.compile("(.+?)(?:\\.cr\\.[0-9a-f]{1,8}\\.ghost|\\.cr_link) \\(deleted\\)");

    private CriuNames() {}

    /** Returns the path that a copy's file had in the original. */
    static String original(String path) {
        if (!path.endsWith(" (deleted)")) {
            return path;
        }
        Matcher name = MADE_BY_CRIU.matcher(path);
        return name.matches() ? name.group(1) + " (deleted)" : path;
    }
}
