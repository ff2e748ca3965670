package io.ppmr.cli.control;

import java.util.Map;
import java.util.function.Supplier;

/** What a target's service answers. */
public final class TargetRequests implements ControlRequests {
    private final Supplier<ControlStatus> status;
    private final ResolveRequest resolve;

    /**
     * The answers of one service.
     *
     * @param status what it is doing now; any thread
     * @param resolver carries out what an operator decides for a migration
     */
    public TargetRequests(Supplier<ControlStatus> status, Resolver resolver) {
        this.status = status;
        this.resolve = new ResolveRequest(resolver);
    }

    @Override
    public Map<String, Request> requests() {
        return Map.of(
                ControlProtocol.RESOLVE,
                resolve.request(),
                ControlProtocol.STATUS,
                new Request(true, (request, with) -> with.say(ControlProtocol.STATUS, status.get())));
    }
}
