package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvWC;
import com.ibm.disni.verbs.SVCPollCq;
import com.ibm.disni.verbs.SVCReqNotify;
import java.io.IOException;

/**
 * The completions of one connection as its agent takes them: it polls while they come, and sleeps in the kernel when
 * none has come for a while (ibv_get_cq_event(3)). Used by the agent's thread alone; nothing is allocated for a
 * completion.
 */
final class Completions {
    /** The opcode of a receive whose message was sent (enum ibv_wc_opcode of ibv_poll_cq(3)). */
    static final int RECEIVED = 128;
    /** The opcode of a receive that tells of a write with immediate data. */
    static final int WRITTEN_WITH_IMMEDIATE = 129;

    private static final int BATCH = 32;
    /** Empty polls in a row before the agent sleeps. */
    private static final int EMPTY_POLLS = 200;

    private final Endpoint endpoint;
    private final Handler handler;
    private final IbvWC[] batch = new IbvWC[BATCH];
    private final SVCPollCq poll;
    private final SVCReqNotify notify;
    private int empty;

    /** Takes one completion. */
    @FunctionalInterface
    interface Handler {
        /**
         * Called for each.
         *
         * @param status of a failed one only this and the id are valid
         * @param lengthBytes of a receive: how many bytes have come
         * @param immediate of a receive that a write with immediate data has ended
         */
        void completed(long workId, int status, int opcode, int lengthBytes, int immediate) throws IOException;
    }

    Completions(Endpoint endpoint, Handler handler) throws IOException {
        this.endpoint = endpoint;
        this.handler = handler;
        for (int i = 0; i < BATCH; i++) {
            batch[i] = new IbvWC();
        }
        poll = endpoint.completions().poll(batch, BATCH);
        notify = endpoint.completions().reqNotification(false);
    }

    /** Takes what has come; when nothing has for a while, sleeps until something does, for at most so long. */
    void await(int atMostMs) throws IOException {
        empty = drain() > 0 ? 0 : empty + 1;
        if (empty > EMPTY_POLLS) {
            empty = 0;
            notify.execute();
            // What came before the event was asked for makes none.
            if (drain() == 0 && endpoint.events().getCqEvent(endpoint.completions(), atMostMs)) {
                endpoint.completions().ackEvents(1);
            }
        }
    }

    private int drain() throws IOException {
        int count = poll.execute().getPolls();
        for (int i = 0; i < count; i++) {
            IbvWC one = batch[i];
            handler.completed(one.getWr_id(), one.getStatus(), one.getOpcode(), one.getByte_len(), one.getImm_data());
        }
        return count;
    }

    /** Gives the requests' memory back, when the agent has ended. */
    void free() {
        CloseSequence.quietly("the request to poll", poll::free);
        CloseSequence.quietly("the request for events", notify::free);
    }
}
