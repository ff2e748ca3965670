package io.ppmr.pods;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** A request about pods to a service's control socket. It is for one thread and one request. Its owner closes it. */
public final class PodClient implements AutoCloseable {
    /** Covers the programs that a service runs to make a pod, each with a deadline of its own. */
    private static final Duration LIMIT = Duration.ofMinutes(3);

    private final ControlClient client;

    public PodClient(Path socket) throws IOException {
        client = new ControlClient(socket);
    }

    /**
     * Makes and starts a pod.
     *
     * @throws RequestException if no template grants it, or its command cannot start
     */
    public PodStatus runPod(PodOrder order) throws IOException, RequestException {
        return client.askPart(PodRequests.RUN, order, LIMIT, PodRequests.POD, PodStatus.class);
    }

    /** Lists the pods that the caller may see. */
    public List<PodStatus> pods() throws IOException, RequestException {
        return List.of(client.askPart(
                PodRequests.LIST, new ControlRequest.Shown(false), LIMIT, PodRequests.PODS, PodStatus[].class));
    }

    /** Shows a pod, by its short or its full name. */
    public PodStatus showPod(String name) throws IOException, RequestException {
        return client.askPart(PodRequests.SHOW, new PodRequests.Named(name), LIMIT, PodRequests.POD, PodStatus.class);
    }

    /**
     * Runs a further command in a pod.
     *
     * @param order the command; its name is the pod's
     * @param detached whether it continues in the pod; otherwise the call waits for its end
     */
    public Pods.Executed execute(PodOrder order, boolean detached) throws IOException, RequestException {
        return client.askPart(
                PodRequests.EXEC,
                new PodRequests.Execute(order, detached),
                LIMIT,
                PodRequests.EXECUTED,
                Pods.Executed.class);
    }

    /** Ends and removes a pod, by its short or its full name. */
    public PodStatus stopPod(String name) throws IOException, RequestException {
        return client.askPart(PodRequests.STOP, new PodRequests.Named(name), LIMIT, PodRequests.POD, PodStatus.class);
    }

    @Override
    public void close() throws IOException {
        client.close();
    }
}
