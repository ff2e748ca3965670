package io.ppmr.protocol.data;

import org.agrona.DirectBuffer;

/**
 * A view of a frame in a buffer. The owning thread wraps one instance over frame after frame and reads the fields in
 * place. Valid as long as the frame.
 *
 * @param <F> the type of the frame
 */
abstract class Flyweight<F extends Flyweight<F>> {
    DirectBuffer buffer;
    int offset;

    /** Sets the frame at {@code frameOffset} as the viewed one and returns this object. */
    @SuppressWarnings("unchecked")
    public F wrap(DirectBuffer frame, int frameOffset) {
        buffer = frame;
        offset = frameOffset;
        return (F) this;
    }

    /** The number of the file, 0 if none. */
    public int file() {
        return Frame.file(buffer, offset);
    }
}
