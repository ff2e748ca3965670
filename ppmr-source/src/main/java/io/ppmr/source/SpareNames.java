package io.ppmr.source;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Looks the names of spare nodes up. */
final class SpareNames {
    private static final Logger LOG = LoggerFactory.getLogger(SpareNames.class);

    private SpareNames() {}

    /** The addresses in their order, without those whose names are not known; throws if none is left. */
    static List<InetSocketAddress> of(List<InetSocketAddress> addresses) throws IOException {
        List<InetSocketAddress> known = new ArrayList<>();
        for (InetSocketAddress address : addresses) {
            InetSocketAddress found = address.isUnresolved()
                    ? new InetSocketAddress(address.getHostString(), address.getPort())
                    : address;
            if (found.isUnresolved()) {
                LOG.warn("spare node {} is passed over: its name is not known on this node", name(address));
            } else {
                known.add(found);
            }
        }
        if (known.isEmpty()) {
            throw new IOException("the name of no spare node is known here: look at the name service of this node");
        }
        return known;
    }

    static String name(InetSocketAddress address) {
        return address.getHostString() + ":" + address.getPort();
    }
}
