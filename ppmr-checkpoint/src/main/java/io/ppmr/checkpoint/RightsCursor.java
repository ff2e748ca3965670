package io.ppmr.checkpoint;

import java.io.Closeable;
import java.io.IOException;

/**
 * Reads the lines of a record of rights, one after the other. Common rights of threads precede them, under a number.
 * The cursor inserts these into each thread's own line. Owned by one thread.
 */
final class RightsCursor implements Closeable {
    private final SortedLines.Cursor lines;
    private final SharedRights shared = new SharedRights();

    RightsCursor(SortedLines.Cursor lines) {
        this.lines = lines;
    }

    /** Returns the next line, or null behind the last one. */
    String next() throws IOException {
        String line = lines.next();
        while (line != null && RightsLine.isShared(line)) {
            shared.put(RightsLine.sharedNumber(line), RightsLine.sharedWords(line));
            line = lines.next();
        }
        return line == null ? null : RightsLine.whole(line, shared);
    }

    @Override
    public void close() throws IOException {
        lines.close();
    }
}
