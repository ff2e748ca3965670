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
     */
    record Request(boolean readsOnly, Answerer answerer) {}

    /** Answers one request to its end. */
    @FunctionalInterface
    interface Answerer {
        void answer(JsonNode request, Conversation with) throws IOException, InterruptedException;
    }

    /** All of them, by their names in the protocol. */
    Map<String, Request> requests();
}
