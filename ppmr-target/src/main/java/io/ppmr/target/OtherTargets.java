package io.ppmr.target;

import io.ppmr.protocol.ControlMessage;
import io.ppmr.transport.tcp.Connector;
import io.ppmr.transport.tcp.Courier;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** How a migration talks to its other targets: by a courier to each. Owned by the migration's thread. */
final class OtherTargets implements AutoCloseable {
    private static final Duration CONNECT_DEADLINE = Duration.ofSeconds(5);

    private final String migrationId;
    private final TargetSettings settings;
    private final Map<String, Courier> couriers = new HashMap<>();

    OtherTargets(String migrationId, TargetSettings settings) {
        this.migrationId = migrationId;
        this.settings = settings;
    }

    /**
     * Says it, now or when the other is reached; may be lost.
     *
     * @param self this target's name in the plan
     * @param heard told what is answered, on the courier's thread
     */
    void say(String to, int attempt, String self, ControlMessage message, Consumer<ControlMessage> heard) {
        couriers.computeIfAbsent(to, name -> courier(name, attempt, self, heard))
                .say(message);
    }

    private Courier courier(String to, int attempt, String self, Consumer<ControlMessage> heard) {
        int colon = to.lastIndexOf(':');
        InetSocketAddress address =
                new InetSocketAddress(to.substring(0, colon), Integer.parseInt(to.substring(colon + 1)));
        return new Courier(
                new Connector(address, settings.authenticator(), CONNECT_DEADLINE),
                to,
                attempt,
                settings.silenceLimit(),
                List.of(new ControlMessage.Peer(migrationId, self)),
                heard);
    }

    @Override
    public void close() {
        couriers.values().forEach(Courier::close);
    }
}
