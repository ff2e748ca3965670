package io.ppmr.checkpoint;

import io.ppmr.checkpoint.sharing.EscapedName;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * Receives the privileges of a rank's originals from the source, line by line. They stay in a file of the service until
 * they are compared with the copy. None of them stay on the heap. Owned by one thread.
 */
public final class ArrivingPrivileges implements Closeable {
    private final int rank;
    private final SortedLines.Appender lines;
    private final RightsSummary summary = new RightsSummary();
    private final RecentTexts seen = new RecentTexts();
    private final SharedRights shared = new SharedRights();

    /** @param directory a folder of the service; made if missing */
    public ArrivingPrivileges(Path directory, int rank) throws CheckpointException {
        this.rank = rank;
        try {
            this.lines = new SortedLines.Appender(directory, "originals-" + rank);
        } catch (IOException e) {
            throw ProcessPrivileges.unreadable(e);
        }
    }

    /** Returns the rank of the record. */
    public int rank() {
        return rank;
    }

    /** Adds the next lines. Throws, with the line, if one is invalid or out of order. */
    public void add(List<String> page) throws CheckpointException {
        for (String line : page) {
            try {
                check(line);
                if (line.length() > SortedLines.MAX_LINE_CHARS) {
                    throw new IllegalArgumentException("it has " + line.length() + " characters");
                }
                lines.add(line);
            } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
                throw new CheckpointException(
                        "the record of the privileges of rank " + rank + "'s originals has an invalid line: '"
                                + EscapedName.text(line) + "' (" + EscapedName.text(e.toString())
                                + "). Remedy: install the same release on both nodes",
                        e);
            } catch (IOException e) {
                throw ProcessPrivileges.unreadable(e);
            }
        }
    }

    private void check(String line) {
        if (RightsLine.isShared(line)) {
            String words = RightsLine.sharedWords(line);
            ThreadRights.parse("0 " + words);
            if (!shared.put(RightsLine.sharedNumber(line), words)) {
                throw new IllegalArgumentException("its rights have the number of another line, or there are too many");
            }
            return;
        }
        // Most threads of a large process have equal rights.
        if (!RightsLine.isNumberedThread(line) || seen.isNew(RightsLine.withoutNumber(line))) {
            RightsLine.check(RightsLine.whole(line, shared), summary);
        }
    }

    /** Returns the complete record, which then owns the file. */
    public ProcessPrivileges end() throws CheckpointException {
        try {
            return new ProcessPrivileges(lines.sorted(), summary);
        } catch (IOException e) {
            throw ProcessPrivileges.unreadable(e);
        }
    }

    /** Removes the file, unless it was handed over. */
    @Override
    public void close() throws IOException {
        lines.close();
    }
}
