package io.ppmr.cli.control;

import java.util.Map;
import java.util.function.Supplier;

/** What a target's service answers. */
public final class TargetRequests implements ControlRequests {
    private final Supplier<ControlStatus> status;

    /**
     * The answers of one service.
     *
     * @param status what it is doing now; any thread
     */
    public TargetRequests(Supplier<ControlStatus> status) {
        this.status = status;
    }

    @Override
    public Map<String, Request> requests() {
        return Map.of(
                ControlProtocol.STATUS,
                new Request(true, (request, with) -> with.say(ControlProtocol.STATUS, status.get())));
    }
}
