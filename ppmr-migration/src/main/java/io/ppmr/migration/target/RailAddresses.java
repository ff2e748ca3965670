package io.ppmr.migration.target;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.listen.PeerListener;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Listens for the connections of a target's rails. An address that the node does not have, because its network is down,
 * is tried again for each migration. Safe for any thread. It lives as long as the listener, which closes the open
 * addresses.
 */
final class RailAddresses {
    private static final Logger LOG = LoggerFactory.getLogger(RailAddresses.class);

    private final List<RailSettings> rails;
    private final PeerListener listener;
    /** Addresses by the rails' names. */
    private final Map<String, InetSocketAddress> open = new HashMap<>();

    RailAddresses(List<RailSettings> rails, PeerListener listener) {
        this.rails = rails;
        this.listener = listener;
    }

    /** Listens for each rail if possible, and returns the addresses. */
    synchronized List<DataMessage.OfferedRail> listening() {
        List<DataMessage.OfferedRail> listening = new ArrayList<>();
        for (RailSettings rail : rails) {
            InetSocketAddress address = open.get(rail.name());
            if (address == null && rail.address().isPresent()) {
                address = listen(rail.name(), rail.address().get());
            }
            if (address != null) {
                listening.add(new DataMessage.OfferedRail(
                        rail.name(), address.getAddress().getHostAddress(), address.getPort(), rail.direct()));
            }
        }
        return listening;
    }

    private InetSocketAddress listen(String name, InetSocketAddress address) {
        try {
            InetSocketAddress opened = listener.listenAt(address);
            LOG.info("rail {} listens at {}", name, opened);
            open.put(name, opened);
            return opened;
        } catch (IOException e) {
            LOG.warn("rail {} is unavailable: {}", name, e.getMessage());
            return null;
        }
    }
}
