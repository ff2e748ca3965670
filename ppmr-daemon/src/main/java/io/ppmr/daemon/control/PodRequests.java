package io.ppmr.daemon.control;

import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.daemon.pods.PodOrder;
import io.ppmr.daemon.pods.Pods;
import io.ppmr.daemon.pods.Pods.Caller;
import io.ppmr.migration.RequestException;
import io.ppmr.os.Accounts;
import java.io.IOException;
import java.util.Map;

/**
 * Answers what users ask of the node's pods. Every user may ask; what each is given depends on who the kernel says that
 * it is. Immutable, on the connections' threads.
 */
public record PodRequests(Pods pods) {
    private static final int ROOT = 0;
    private static final String NUMBER = "\\d{1,10}";

    /** Names a pod, in short or as UID/NAME. */
    record Named(String name) {}

    /**
     * Has a further command run in a pod.
     *
     * @param order the command; its name is the pod's
     * @param detached whether nobody waits for it
     */
    @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
    record Execute(PodOrder order, boolean detached) {}

    /** Carries out a request of a caller, and gives the answer. */
    @FunctionalInterface
    private interface Question<T> {
        Object answer(T request, Caller caller) throws IOException, RequestException;
    }

    /** All of them, by their names in the protocol. */
    public Map<String, ControlRequest<?>> requests() {
        return Map.of(
                ControlProtocol.POD_RUN,
                request(PodOrder.class, ControlProtocol.POD, (order, caller) -> pods.run(caller, order)),
                ControlProtocol.POD_LIST,
                request(ControlRequest.Plain.class, ControlProtocol.PODS, (plain, caller) -> pods.list(caller)),
                ControlProtocol.POD_SHOW,
                request(Named.class, ControlProtocol.POD, (named, caller) -> pods.show(caller, named.name())),
                ControlProtocol.POD_EXEC,
                request(Execute.class, ControlProtocol.EXECUTED, this::execute),
                ControlProtocol.POD_STOP,
                request(Named.class, ControlProtocol.POD, (named, caller) -> pods.stop(caller, named.name())));
    }

    private Pods.Executed execute(Execute request, Caller caller) throws IOException, RequestException {
        if (request.order() == null) {
            throw new RequestException("there is no command to run in the pod: give one behind --");
        }
        return pods.execute(caller, request.order(), request.detached());
    }

    private static <T> ControlRequest<T> request(Class<T> fields, String key, Question<T> question) {
        return new ControlRequest<>(fields, false, (request, user) -> true, (request, with) -> {
            try {
                with.say(key, question.answer(request, caller(with)));
            } catch (RequestException e) {
                with.say(ControlProtocol.REFUSED, e.getMessage());
            } catch (IOException e) {
                with.say(ControlProtocol.ERROR, e.getMessage());
            }
        });
    }

    /** Finds the caller by number, since names may be shared. */
    private static Caller caller(Exchange with) throws IOException, RequestException {
        String user = with.user();
        int uid = user.matches(NUMBER)
                ? Integer.parseUnsignedInt(user)
                : Accounts.user(user)
                        .orElseThrow(() -> new RequestException(
                                "user " + user + " is not in this node's user database: add the user there"))
                        .uid();
        return new Caller(user, uid, uid == ROOT, with.controls());
    }
}
