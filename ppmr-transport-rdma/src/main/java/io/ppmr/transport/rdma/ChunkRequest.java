package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvQP;
import com.ibm.disni.verbs.IbvSendWR;
import com.ibm.disni.verbs.IbvSge;
import com.ibm.disni.verbs.SVCPostSend;
import io.ppmr.protocol.data.ChunkFrame;
import java.io.IOException;
import java.util.LinkedList;
import java.util.List;

/**
 * The two requests that write a chunk, for one entry of the target's ring. The first writes the frame, the second the
 * bytes with immediate data that names the entry. A queue pair executes them in this order, so the frame and the bytes
 * are complete when the immediate data arrives. DiSNI cannot change the immediate data of a request, so each entry has
 * its own request, which is posted repeatedly. Used while holding the sender's lock.
 */
final class ChunkRequest {
    private final SVCPostSend call;
    private final SVCPostSend.SendWRMod frame;
    private final SVCPostSend.SendWRMod chunk;

    ChunkRequest(IbvQP queuePair, int entry, long ringAddress, int ringKey, int frameKey, int poolKey, int remoteKey)
            throws IOException {
        IbvSendWR frameWrite = request(IbvSendWR.IBV_WR_RDMA_WRITE, 0);
        IbvSendWR chunkWrite = request(IbvSendWR.IBV_WR_RDMA_WRITE_WITH_IMM, IbvSendWR.IBV_SEND_SIGNALED);
        chunkWrite.setImm_data(entry);
        call = queuePair.postSend(List.of(frameWrite, chunkWrite), List.of());
        frame = call.getWrMod(0);
        chunk = call.getWrMod(1);
        frame.setWr_id(WorkId.of(WorkId.FRAME, 0, entry));
        frame.getRdmaMod().setRemote_addr(ringAddress + (long) entry * FrameRing.ENTRY_BYTES);
        frame.getRdmaMod().setRkey(ringKey);
        frame.getSgeMod(0).setLength(ChunkFrame.LENGTH_BYTES);
        frame.getSgeMod(0).setLkey(frameKey);
        chunk.getRdmaMod().setRkey(remoteKey);
        chunk.getSgeMod(0).setLkey(poolKey);
    }

    /** Creates a request for one memory element. DiSNI requires the type of the list. */
    @SuppressWarnings("JdkObsolete")
    static IbvSendWR request(int opcode, int flags) {
        IbvSendWR made = new IbvSendWR();
        made.setOpcode(opcode);
        made.setSend_flags(flags);
        LinkedList<IbvSge> elements = new LinkedList<>();
        elements.add(new IbvSge());
        made.setSg_list(elements);
        made.setNum_sge(1);
        return made;
    }

    void post(long workId, long frameAddress, long remoteAddress, long localAddress, int lengthBytes)
            throws IOException {
        frame.getSgeMod(0).setAddr(frameAddress);
        chunk.setWr_id(workId);
        chunk.getRdmaMod().setRemote_addr(remoteAddress);
        chunk.getSgeMod(0).setAddr(localAddress);
        chunk.getSgeMod(0).setLength(lengthBytes);
        call.execute();
    }

    Object free() {
        return call.free();
    }
}
