package io.ppmr.cli;

import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transaction.journal.MappedJournal;
import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;

/** The version of this build. */
public final class BuildVersion {
    private static final String FILE = "/io/ppmr/cli/version.properties";

    private BuildVersion() {}

    /** Returns the version alone. */
    public static String version() throws IOException {
        return properties().getProperty("version");
    }

    private static Properties properties() throws IOException {
        Properties built = new Properties();
        try (InputStream in = BuildVersion.class.getResourceAsStream(FILE)) {
            built.load(in);
        }
        return built;
    }

    /** Returns version, commit, protocol and journal in one line. */
    public static String text() throws IOException {
        Properties built = properties();
        String commit = built.getProperty("commit", "");
        return "ppmr " + built.getProperty("version") + (commit.isEmpty() ? "" : " (" + commit + ")") + ", protocol "
                + VersionRange.OF_THIS_RELEASE + ", journal "
                + new VersionRange(MappedJournal.VERSION, MappedJournal.OLDEST_VERSION);
    }
}
