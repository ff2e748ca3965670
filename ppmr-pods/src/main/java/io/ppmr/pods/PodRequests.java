package io.ppmr.pods;

import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import io.ppmr.daemon.control.ControlProtocol;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.linux.Accounts;
import io.ppmr.linux.OutputBudget;
import io.ppmr.migration.RequestException;
import io.ppmr.pods.Pods.PodUser;
import java.io.IOException;
import java.util.List;
import java.util.Map;

/**
 * The requests of users about the node's pods, on the control socket.
 *
 * <pre>
 *   {"request": "pod_run", "name": NAME, "command": [WORD], ...}
 *                                          "pod", as it runs; the fields are those of {@link PodOrder}
 *   {"request": "pod_exec", "order": {...}, "detached": false}
 *                                          "executed"; the order as for pod_run, its name the pod's
 *   {"request": "pod_show", "name": NAME}  "pod"
 *   {"request": "pod_stop", "name": NAME}  "pod", as it ended
 *   {"request": "pod_list", "lines": false}
 *                                          "pods"; with lines "lines", for people
 * </pre>
 *
 * The fields of the answers are those of {@link PodStatus} and {@link Pods.Executed}. Every user may send a request.
 * The answer depends on the user that the kernel reports. It is immutable and called on the connections' threads.
 */
public record PodRequests(Pods pods) {
    static final String RUN = "pod_run";
    static final String LIST = "pod_list";
    static final String SHOW = "pod_show";
    static final String EXEC = "pod_exec";
    static final String STOP = "pod_stop";
    static final String POD = "pod";
    static final String PODS = "pods";
    static final String EXECUTED = "executed";

    private static final int ROOT = 0;
    /** Limit of the outputs of all commands at once. An answer needs several times as much memory. */
    private static final int ALL_OUTPUTS_BYTES = 4 << 20;

    private static final int OWN_OUTPUT_BYTES = 16 << 10;
    private static final int OUTPUT_BYTES = 256 << 10;
    /** This process has one, because it bounds the heap. The number of connections limits the number of commands. */
    private static final OutputBudget OUTPUTS = new OutputBudget(ALL_OUTPUTS_BYTES, OWN_OUTPUT_BYTES, OUTPUT_BYTES);

    /** Names a pod, by its short name or as UID/NAME. */
    record Named(String name) {}

    /**
     * Runs a further command in a pod.
     *
     * @param order the command; its name is the pod's
     * @param detached whether no client waits for it
     */
    @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
    record Execute(PodOrder order, boolean detached) {}

    /** Carries out a request of a caller, and returns the answer. */
    @FunctionalInterface
    private interface Question<T> {
        Object answer(T request, PodUser caller) throws IOException, RequestException;
    }

    /** Carries out a request of a caller, and sends the answer. */
    @FunctionalInterface
    private interface Work<T> {
        void carryOut(T request, PodUser caller, Exchange with) throws IOException, RequestException;
    }

    /** Returns all requests, by their names in the protocol. */
    public Map<String, ControlRequest<?>> requests() {
        return Map.of(
                RUN,
                request(PodOrder.class, POD, (order, caller) -> pods.run(caller, order)),
                LIST,
                request(ControlRequest.Shown.class, this::list),
                SHOW,
                request(Named.class, POD, (named, caller) -> pods.show(caller, named.name())),
                EXEC,
                request(Execute.class, this::execute),
                STOP,
                request(Named.class, POD, (named, caller) -> pods.stop(caller, named.name())));
    }

    private void list(ControlRequest.Shown request, PodUser caller, Exchange with)
            throws IOException, RequestException {
        List<PodStatus> found = pods.list(caller);
        with.send(request.lines() ? ControlProtocol.LINES : PODS, request.lines() ? PodStatus.lines(found) : found);
    }

    private void execute(Execute request, PodUser caller, Exchange with) throws IOException, RequestException {
        if (request.order() == null) {
            throw new RequestException("there is no command to run in the pod: give one behind --");
        }
        try (OutputBudget.BudgetShare output = OUTPUTS.open()) {
            with.send(EXECUTED, pods.execute(caller, request.order(), request.detached(), output));
        }
    }

    private static <T> ControlRequest<T> request(Class<T> fields, String key, Question<T> question) {
        return request(fields, (request, caller, with) -> with.send(key, question.answer(request, caller)));
    }

    private static <T> ControlRequest<T> request(Class<T> fields, Work<T> work) {
        return new ControlRequest<>(fields, false, (request, user) -> true, (request, with) -> {
            try {
                work.carryOut(request, caller(with), with);
            } catch (RequestException e) {
                with.send(ControlProtocol.REFUSED, e.getMessage());
            } catch (IOException e) {
                with.send(ControlProtocol.ERROR, e.getMessage());
            }
        });
    }

    /** Identifies the caller by number, because several users may share a name. */
    private static PodUser caller(Exchange with) throws IOException {
        String user = with.user();
        int uid = Accounts.uidOf(user);
        return new PodUser(user, uid, uid == ROOT, with.controls());
    }
}
