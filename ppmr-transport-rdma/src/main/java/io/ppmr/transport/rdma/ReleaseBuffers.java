package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.IbvRecvWR;
import com.ibm.disni.verbs.IbvSge;
import io.ppmr.protocol.data.ReleaseFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.LinkedList;
import org.agrona.BufferUtil;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Registered buffers for the messages that release chunks. Each has space for a few RELEASE frames. The peer cannot
 * access them directly. Kept as long as the connection; used by one thread at a time.
 */
final class ReleaseBuffers {
    /** Maximum number of releases in one message. */
    static final int RELEASES = 8;

    private static final int BUFFER_BYTES = RELEASES * ReleaseFrame.LENGTH_BYTES;

    private final ByteBuffer bytes;
    private final UnsafeBuffer view;
    private final IbvMr region;

    ReleaseBuffers(Endpoint endpoint, int count) throws IOException {
        bytes = BufferUtil.allocateDirectAligned(count * BUFFER_BYTES, FrameRing.ENTRY_BYTES);
        view = new UnsafeBuffer(bytes);
        region = endpoint.register(
                "the buffers of releases",
                BufferUtil.address(bytes),
                count * BUFFER_BYTES,
                IbvMr.IBV_ACCESS_LOCAL_WRITE);
    }

    UnsafeBuffer view() {
        return view;
    }

    /** Returns the offset of a buffer in {@link #view}. */
    static int offset(int buffer) {
        return buffer * BUFFER_BYTES;
    }

    long address(int buffer) {
        return BufferUtil.address(bytes) + offset(buffer);
    }

    int localKey() {
        return region.getLkey();
    }

    /** Creates the request that receives one message into a buffer. */
    // DiSNI requires the type of the list.
    @SuppressWarnings("JdkObsolete")
    IbvRecvWR receive(int buffer) {
        IbvSge element = new IbvSge();
        element.setAddr(address(buffer));
        element.setLength(BUFFER_BYTES);
        element.setLkey(localKey());
        LinkedList<IbvSge> elements = new LinkedList<>();
        elements.add(element);
        IbvRecvWR request = new IbvRecvWR();
        request.setWr_id(WorkId.of(WorkId.RELEASES_IN, 0, buffer));
        request.setSg_list(elements);
        request.setNum_sge(1);
        return request;
    }
}
