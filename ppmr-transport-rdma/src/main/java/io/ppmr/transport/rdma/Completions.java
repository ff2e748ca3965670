package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvWC;
import com.ibm.disni.verbs.SVCPollCq;
import com.ibm.disni.verbs.SVCReqNotify;
import java.io.IOException;

/**
 * Polls the completions of one connection for its agent. It polls while completions arrive, and otherwise sleeps in the
 * kernel (ibv_get_cq_event(3)). Used only by the agent's thread. A completion allocates nothing.
 */
final class Completions {
    /** The opcode of a receive whose message was sent (enum ibv_wc_opcode of ibv_poll_cq(3)). */
    static final int RECEIVED = 128;
    /** The opcode of a receive that reports a write with immediate data. */
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

    /** Handles one completion. */
    @FunctionalInterface
    interface Handler {
        /**
         * Called for each completion.
         *
         * @param status for a failed completion only the status and the id are valid
         * @param lengthBytes for a receive: the received bytes
         * @param immediate for a receive that a write with immediate data completed
         */
        void onCompletion(long workId, int status, int opcode, int lengthBytes, int immediate) throws IOException;
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

    /**
     * Handles available completions. After {@value #EMPTY_POLLS} empty polls it sleeps until the next completion, for
     * at most {@code atMostMs}.
     */
    void await(int atMostMs) throws IOException {
        empty = drain() > 0 ? 0 : empty + 1;
        if (empty > EMPTY_POLLS) {
            empty = 0;
            notify.execute();
            // Completions before the request for an event cause none.
            if (drain() == 0 && endpoint.events().getCqEvent(endpoint.completions(), atMostMs)) {
                endpoint.completions().ackEvents(1);
            }
        }
    }

    private int drain() throws IOException {
        int count = poll.execute().getPolls();
        for (int i = 0; i < count; i++) {
            IbvWC one = batch[i];
            handler.onCompletion(
                    one.getWr_id(), one.getStatus(), one.getOpcode(), one.getByte_len(), one.getImm_data());
        }
        return count;
    }

    /** Frees the requests' memory after the agent ended. */
    void free() {
        CloseSequence.quietly("the request to poll", poll::free);
        CloseSequence.quietly("the request for events", notify::free);
    }
}
