package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvQP;
import com.ibm.disni.verbs.IbvSendWR;
import com.ibm.disni.verbs.SVCPostSend;
import java.io.IOException;
import java.util.List;

/**
 * One RDMA Read request that is posted repeatedly with different values. ibv_post_send(3) copies it, so one object
 * serves all concurrent reads, and posting allocates nothing. Used by one thread at a time.
 */
final class ReadRequest {
    private final SVCPostSend call;
    private final SVCPostSend.SendWRMod request;
    private final SVCPostSend.RdmaMod remote;
    private final SVCPostSend.SgeMod local;

    ReadRequest(IbvQP queuePair) throws IOException {
        IbvSendWR read = ChunkRequest.request(IbvSendWR.IBV_WR_RDMA_READ, IbvSendWR.IBV_SEND_SIGNALED);
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

    Object free() {
        return call.free();
    }
}
