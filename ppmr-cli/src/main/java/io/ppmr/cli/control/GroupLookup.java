package io.ppmr.cli.control;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds all groups of a user, the supplementary ones, too, which SO_PEERCRED does not tell. Any thread; may take
 * seconds where the site's directory service is slow.
 */
@FunctionalInterface
interface GroupLookup {
    /** The groups' numbers; none where the user is not known. */
    Set<Integer> groupsOf(String user);

    /** By way of id(1), which also asks the site's directory service. */
    static GroupLookup system() {
        return SystemGroups::of;
    }

    /** What {@link #system} does. */
    final class SystemGroups {
        private static final Logger LOG = LoggerFactory.getLogger(GroupLookup.class);
        private static final long LIMIT_S = 5;

        private SystemGroups() {}

        private static Set<Integer> of(String user) {
            try {
                Process id = new ProcessBuilder("id", "-G", "--", user)
                        .redirectError(ProcessBuilder.Redirect.DISCARD)
                        .start();
                id.getOutputStream().close();
                if (!id.waitFor(LIMIT_S, TimeUnit.SECONDS)) {
                    id.destroyForcibly();
                    LOG.warn("the groups of user {} are not told within {} s: none are counted", user, LIMIT_S);
                    return Set.of();
                }
                String groups = new String(id.getInputStream().readAllBytes(), StandardCharsets.US_ASCII).strip();
                if (id.exitValue() != 0 || groups.isEmpty()) {
                    return Set.of();
                }
                return Arrays.stream(groups.split(" ", -1))
                        .map(Integer::valueOf)
                        .collect(Collectors.toSet());
            } catch (IOException e) {
                LOG.warn("the groups of user {} cannot be looked up: {}", user, e.getMessage());
                return Set.of();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return Set.of();
            }
        }
    }
}
