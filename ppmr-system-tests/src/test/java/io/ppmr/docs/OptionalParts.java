package io.ppmr.docs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Assumptions;

/** The optional parts of the tree, without which some pages and commands are not there. */
public final class OptionalParts {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Pattern PART = Pattern.compile("<exists>\\$\\{basedir}/(ppmr-[a-z]+/pom\\.xml)</exists>");

    private OptionalParts() {}

    /** Skips the caller's test in a tree that lacks one of them. */
    public static void assumeAll() throws IOException {
        Assumptions.assumeTrue(
                PART.matcher(Files.readString(HOME.resolve("pom.xml")))
                        .results()
                        .allMatch(part -> Files.exists(HOME.resolve(part.group(1)))),
                "this tree lacks an optional part");
    }
}
