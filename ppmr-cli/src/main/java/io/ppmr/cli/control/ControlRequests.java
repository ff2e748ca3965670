package io.ppmr.cli.control;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.Map;

/** The requests that a service answers on its control socket. Called on the connections' threads, at once. */
public interface ControlRequests {

    /**
     * One request.
     *
     * @param readsOnly whether it changes nothing, so that those may ask who may only read the status
     * @param answerer what answers it
     * @param owners which users may ask it although they may not control the service
     */
    record Request(boolean readsOnly, Answerer answerer, Owners owners) {
        /** One that is only for those who may control the service. */
        public Request(boolean readsOnly, Answerer answerer) {
            this(readsOnly, answerer, (request, user) -> false);
        }
    }

    /** Whether a request is about what a user owns. */
    @FunctionalInterface
    interface Owners {
        boolean mayAsk(JsonNode request, String user);
    }

    /** Answers one request to its end. */
    @FunctionalInterface
    interface Answerer {
        void answer(JsonNode request, Conversation with) throws IOException, InterruptedException;
    }

    /** All of them, by their names in the protocol. */
    Map<String, Request> requests();
}
