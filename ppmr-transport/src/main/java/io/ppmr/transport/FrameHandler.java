package io.ppmr.transport;

import io.ppmr.protocol.data.FrameType;
import java.io.IOException;
import org.agrona.DirectBuffer;

/**
 * Handles the frames of a {@link ControlLink}, in order, on the agent's thread. The buffer is valid during the call.
 */
@FunctionalInterface
public interface FrameHandler {
    void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException;
}
