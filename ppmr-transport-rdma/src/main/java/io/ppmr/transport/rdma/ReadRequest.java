package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvQP;
import com.ibm.disni.verbs.IbvSendWR;
import com.ibm.disni.verbs.IbvSge;
import com.ibm.disni.verbs.SVCPostSend;
import java.io.IOException;
import java.util.LinkedList;
import java.util.List;

/**
 * One RDMA Read that is posted again and again with other numbers: ibv_post_send(3) copies it, so one serves all that
 * are under way, and posting allocates nothing. Used by one thread at a time.
 */
final class ReadRequest {
    private final SVCPostSend call;
    private final SVCPostSend.SendWRMod request;
    private final SVCPostSend.RdmaMod remote;
    private final SVCPostSend.SgeMod local;

    // The list's type is DiSNI's.
    @SuppressWarnings("JdkObsolete")
    ReadRequest(IbvQP queuePair) throws IOException {
        IbvSendWR read = new IbvSendWR();
        read.setOpcode(IbvSendWR.IBV_WR_RDMA_READ);
        read.setSend_flags(IbvSendWR.IBV_SEND_SIGNALED);
        LinkedList<IbvSge> elements = new LinkedList<>();
        elements.add(new IbvSge());
        read.setSg_list(elements);
        read.setNum_sge(1);
        call = queuePair.postSend(List.of(read), List.of());
        request = call.getWrMod(0);
        remote = request.getRdmaMod();
        local = request.getSgeMod(0);
    }

    void post(long workId, long remoteAddress, int remoteKey, long localAddress, int lengthBytes, int localKey)
            throws IOException {
        request.setWr_id(workId);
        remote.setRemote_addr(remoteAddress);
        remote.setRkey(remoteKey);
        local.setAddr(localAddress);
        local.setLength(lengthBytes);
        local.setLkey(localKey);
        call.execute();
    }

    void free() {
        call.free();
    }
}
