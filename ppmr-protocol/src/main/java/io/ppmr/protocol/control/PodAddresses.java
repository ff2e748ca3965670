package io.ppmr.protocol.control;

import java.util.List;

/**
 * The addresses of a pod, which it keeps when it moves. Immutable.
 *
 * @param address its IPv4 address
 * @param address6 its IPv6 address; empty for none
 * @param mac its MAC address
 */
public record PodAddresses(String address, String address6, String mac) {
    /** Lists its IP addresses. */
    public List<String> all() {
        return address6.isEmpty() ? List.of(address) : List.of(address, address6);
    }
}
