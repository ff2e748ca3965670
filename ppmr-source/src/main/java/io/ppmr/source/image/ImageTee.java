package io.ppmr.source.image;

/**
 * Takes what is written to images a second time, for a copy of them. A call never fails, and a slow copy holds its
 * caller up for a bounded time over a whole migration: a copy that cannot keep up is lost, never the image.
 */
public interface ImageTee {
    /** Of a migration of which no copy is wanted. */
    ImageTee NONE = () -> FileCopy.NONE;

    /** A file begins; its name comes with the end. Any thread. */
    FileCopy newFile();

    /** The copy of one file. Called in the order in which the file is changed, under its lock. */
    interface FileCopy {
        /** Of a file of which no copy is wanted. */
        FileCopy NONE = new FileCopy() {
            @Override
            public void write(long address, int lengthBytes, long offset) {
                // No copy is wanted.
            }

            @Override
            public void truncate(long sizeBytes) {
                // No copy is wanted.
            }
        };

        /** Bytes at a native address that is valid during the call. */
        void write(long address, int lengthBytes, long offset);

        /** The file is cut or extended. */
        void truncate(long sizeBytes);
    }
}
