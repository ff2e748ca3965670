package io.ppmr.source.image;

/**
 * Receives the written bytes of images a second time, for a kept copy. A call never fails. A slow copy delays its
 * callers for a bounded time in a whole migration. If it is too slow, the copy is discarded, but never the image.
 */
public interface ImageTee {
    /** For a migration without a kept copy. */
    ImageTee NONE = () -> FileCopy.NONE;

    /** Starts the copy of a file, whose name is known at the end. Any thread. */
    FileCopy newFile();

    /** The copy of one file. Called in the order of the file's changes, while holding its lock. */
    interface FileCopy {
        /** For a file without a kept copy. */
        FileCopy NONE = new FileCopy() {
            @Override
            public void write(long address, int lengthBytes, long offset) {
                // There is no copy.
            }

            @Override
            public void truncate(long sizeBytes) {
                // There is no copy.
            }
        };

        /** Writes bytes at a native address that is valid during the call. */
        void write(long address, int lengthBytes, long offset);

        /** Truncates or extends the file. */
        void truncate(long sizeBytes);
    }
}
