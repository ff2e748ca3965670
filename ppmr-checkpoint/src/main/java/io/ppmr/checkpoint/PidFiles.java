package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Finds restored processes by the PID of their root, which a tool has written into a file as the tool sees it. */
final class PidFiles {
    private PidFiles() {}

    /**
     * The number in the file; empty as long as there is no file, or nothing in it. What else a file of the user's may
     * hold is not quoted.
     *
     * @param user whose file it is, if it is not root's
     * @param needsLineEnd whether it may still be being written, so that only a line end shows that it is whole
     */
    static Optional<Integer> read(Path file, JobUser user, boolean needsLineEnd) throws CheckpointException {
        String text;
        try {
            text = UserPath.read(file, user, UserPath.MAX_TEXT_BYTES).orElse("");
        } catch (IOException e) {
            throw new CheckpointException("no PID can be read: " + e.getMessage(), e);
        }
        if (text.isBlank() || (needsLineEnd && !text.endsWith("\n"))) {
            return Optional.empty();
        }
        if (!text.strip().matches("[1-9][0-9]{0,8}")) {
            throw new CheckpointException(file + " does not hold a PID alone. Remedy: correct what writes it");
        }
        return Optional.of(Integer.valueOf(text.strip()));
    }

    /**
     * The root, if it lives.
     *
     * @param pid its PID inside the namespace, if there is one
     */
    static Optional<ProcessIdentity> root(ProcessTable table, Optional<RankNamespace> namespace, int pid)
            throws CheckpointException {
        if (namespace.isEmpty()) {
            return table.find(pid);
        }
        for (ProcessIdentity process : namespace.get().members(table)) {
            if (table.pidInside(process) == pid) {
                return Optional.of(process);
            }
        }
        return Optional.empty();
    }

    /** All processes of the rank, the root first: everything in its own namespace, or else the root's tree. */
    static List<ProcessIdentity> rank(ProcessTable table, Optional<RankNamespace> namespace, int pid)
            throws CheckpointException {
        Optional<ProcessIdentity> root = root(table, namespace, pid);
        if (root.isEmpty()) {
            return List.of();
        }
        List<ProcessIdentity> found = new ArrayList<>(table.tree(root.get()));
        if (namespace.isPresent()) {
            namespace.get().members(table).stream()
                    .filter(process -> !found.contains(process))
                    .forEach(found::add);
        }
        return found;
    }
}
