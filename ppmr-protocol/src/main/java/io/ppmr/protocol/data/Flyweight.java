package io.ppmr.protocol.data;

import org.agrona.DirectBuffer;

/**
 * A frame as it lies in a buffer: one instance is wrapped over frame after frame by the thread that owns it, and reads
 * its fields where they are. Valid while the frame is.
 *
 * @param <F> the kind of frame
 */
abstract class Flyweight<F extends Flyweight<F>> {
    DirectBuffer buffer;
    int offset;

    /** Reads the frame that begins there from now on; gives itself. */
    @SuppressWarnings("unchecked")
    public F wrap(DirectBuffer frame, int frameOffset) {
        buffer = frame;
        offset = frameOffset;
        return (F) this;
    }

    /** The file that the frame is about, 0 if none. */
    public int file() {
        return Frame.file(buffer, offset);
    }
}
