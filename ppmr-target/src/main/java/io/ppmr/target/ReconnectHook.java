package io.ppmr.target;

import java.time.Duration;
import java.util.List;

/**
 * The command by which a job's library is told where its ranks are when this target has decided without the source.
 * It is of this target's own configuration: a target runs nothing that a peer names.
 *
 * @param words the command, run as the job's user without a shell
 * @param deadline after which it is ended
 */
public record ReconnectHook(List<String> words, Duration deadline) {
    /** The name under which stands the hook of every job that has none of its own. */
    public static final String ANY = "any";

    public ReconnectHook {
        words = List.copyOf(words);
    }
}
