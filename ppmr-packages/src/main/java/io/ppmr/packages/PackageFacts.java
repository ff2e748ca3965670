package io.ppmr.packages;

import java.time.Instant;

/**
 * The facts about a build that both packages name.
 *
 * @param version such as 0.3.0
 * @param commit the short name of the commit, or empty if it is unknown
 * @param time the time of the commit, which is that of each file
 */
record PackageFacts(String version, String commit, Instant time) {
    static final String CHANGES = "CHANGELOG.md beside this file has the changes of each release.";
    /** The project has no address of its own; both formats require one. */
    static final String MAINTAINER = "The ppmr authors <ppmr@localhost>";

    static final String LICENCE = "Apache-2.0";

    /** The directory of this version. No file of another version is in it. */
    String tree() {
        return "/usr/lib/ppmr/" + version;
    }

    /** The directory of this version in the package of the demo. */
    String demoTree() {
        return "/usr/lib/ppmr-demo/" + version;
    }
}
