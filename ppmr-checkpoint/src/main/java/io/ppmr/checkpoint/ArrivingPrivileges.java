package io.ppmr.checkpoint;

import io.ppmr.checkpoint.sharing.EscapedName;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * Takes what the source says of a rank's originals, line by line, into a file of the service's own until it is compared
 * with the copy. Nothing of it stays on the heap. Owned by one thread.
 */
public final class ArrivingPrivileges implements Closeable {
    private final int rank;
    private final SortedLines.Appender lines;
    private final RightsSummary summary = new RightsSummary();
    private final RecentTexts seen = new RecentTexts();
    private final SharedRights shared = new SharedRights();

    /** @param directory a folder of the service's own; made if missing */
    public ArrivingPrivileges(Path directory, int rank) throws CheckpointException {
        this.rank = rank;
        try {
            this.lines = new SortedLines.Appender(directory, "originals-" + rank);
        } catch (IOException e) {
            throw ProcessPrivileges.unreadable(e);
        }
    }

    /** Returns the rank whose record it is. */
    public int rank() {
        return rank;
    }

    /** Takes the next lines; throws and names one that cannot be read or does not come in order. */
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
                        "the record of what the originals of rank " + rank + " may do has a line that cannot be read: '"
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
                throw new IllegalArgumentException("its rights have the number of others, or there are too many");
            }
            return;
        }
        // Most threads of a crowd may do the same.
        if (!RightsLine.isNumberedThread(line) || seen.isNew(RightsLine.withoutNumber(line))) {
            RightsLine.check(RightsLine.whole(line, shared), summary);
        }
    }

    /** Returns the whole record, whose file is the record's from then on. */
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
