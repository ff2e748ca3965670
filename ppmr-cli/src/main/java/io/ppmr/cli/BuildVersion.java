package io.ppmr.cli;

import io.ppmr.protocol.data.Frame;
import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;

/** The version of this build. */
final class BuildVersion {
    private static final String FILE = "/io/ppmr/cli/version.properties";

    private BuildVersion() {}

    /** Returns version, commit and protocol in one line. */
    static String text() throws IOException {
        Properties built = new Properties();
        try (InputStream in = BuildVersion.class.getResourceAsStream(FILE)) {
            built.load(in);
        }
        String commit = built.getProperty("commit", "");
        return "ppmr " + built.getProperty("version") + (commit.isEmpty() ? "" : " (" + commit + ")") + ", protocol "
                + Frame.VERSION;
    }
}
