package io.ppmr.cluster;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.cluster.controller.Controller;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.record.NodeStatus;
import io.ppmr.cluster.record.NodeView;
import io.ppmr.daemon.control.ControlProtocol;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The requests about a cluster's nodes on the control socket of a service or a controller.
 *
 * <pre>
 *   {"request": "nodes", "zone": ZONE, "state": STATE}   "nodes", a list of {@link NodeView}; both may be missing
 *   {"request": "node_off", "node": HOST}                "off", at a controller only
 *   {"request": "node_forget", "node": HOST}             "forgotten", at a controller only
 * </pre>
 */
final class NodeRequests {
    static final String NODES = "nodes";
    static final String OFF = "node_off";
    static final String IS_OFF = "off";
    static final String FORGET = "node_forget";
    static final String FORGOTTEN = "forgotten";
    /** The time for the answer of a controller. */
    static final Duration LIMIT = Duration.ofSeconds(4);

    /** All nodes of a large cluster, in case a controller never reports the last one. */
    private static final int MOST_ANSWERS = 1000;

    private static final ObjectMapper JSON = new ObjectMapper();

    private NodeRequests() {}

    /** Lists the nodes of a cluster. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    record ListRequest(String zone, String state) {}

    /** Reports that a node is off, or must be forgotten. */
    record NodeRequest(String node) {}

    /** Changes a node's state at the active controller. Returns why it cannot be so, or empty. */
    @FunctionalInterface
    private interface NodeChange {
        Optional<String> of(String node, String by) throws IOException, InterruptedException;
    }

    /** Sends a question to the active controller. */
    @FunctionalInterface
    interface Questions {
        ClusterMessage ask(ClusterMessage question) throws IOException, RequestException;
    }

    /** Returns the requests that only read. */
    static Map<String, ControlRequest<?>> of(Questions questions) {
        return Map.of(
                NODES,
                new ControlRequest<>(ListRequest.class, true, (request, with) -> list(questions, request, with)));
    }

    /** Returns the requests that change a node's state, which a controller's own socket alone takes. */
    static Map<String, ControlRequest<?>> changes(Controller controller) {
        return Map.of(
                OFF, change(controller::turnOff, IS_OFF),
                FORGET, change(controller::forget, FORGOTTEN));
    }

    private static ControlRequest<NodeRequest> change(NodeChange change, String answer) {
        return new ControlRequest<>(NodeRequest.class, false, (request, with) -> {
            try {
                Optional<String> refusal =
                        change.of(Optional.ofNullable(request.node()).orElse(""), "user " + with.user());
                with.send(refusal.isPresent() ? ControlProtocol.REFUSED : answer, refusal.orElse(request.node()));
            } catch (IOException e) {
                with.send(ControlProtocol.ERROR, e.getMessage());
            }
        });
    }

    private static void list(Questions questions, ListRequest request, Exchange with) throws IOException {
        try {
            with.send(NODES, nodes(questions, request));
        } catch (RequestException e) {
            with.send(ControlProtocol.REFUSED, e.getMessage());
        } catch (IOException e) {
            with.send(ControlProtocol.ERROR, e.getMessage());
        }
    }

    private static List<NodeView> nodes(Questions questions, ListRequest request) throws IOException, RequestException {
        String zone = Optional.ofNullable(request.zone()).orElse("");
        String state = Optional.ofNullable(request.state()).orElse("");
        if (!state.isEmpty()) {
            state = state(state).name();
        }
        List<NodeView> nodes = new ArrayList<>();
        String after = "";
        for (int i = 0; i < MOST_ANSWERS; i++) {
            ClusterMessage answer = questions.ask(new ClusterMessage.ListNodes(after, zone, state));
            if (answer instanceof ClusterMessage.QuestionRefused refused) {
                throw new RequestException(refused.reason());
            }
            if (!(answer instanceof ClusterMessage.NodeList list)) {
                throw new IOException("no controller is active. Remedy: wait until one is elected, or start one"
                        + " (systemctl start ppmr-controller)");
            }
            for (String text : list.nodes()) {
                nodes.add(JSON.readValue(text, NodeView.class));
            }
            if (list.last() || list.nodes().isEmpty()) {
                return nodes;
            }
            after = nodes.get(nodes.size() - 1).host();
        }
        return nodes;
    }

    /** Returns the state of a word. */
    static NodeStatus state(String word) throws RequestException {
        for (NodeStatus state : NodeStatus.values()) {
            if (state.word().equals(word)) {
                return state;
            }
        }
        throw new RequestException(
                "there is no state '" + word + "': name up, silent, service-down, suspect, unknown" + " or off");
    }
}
