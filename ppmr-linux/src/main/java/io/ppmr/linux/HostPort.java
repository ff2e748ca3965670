package io.ppmr.linux;

import java.net.InetSocketAddress;
import java.util.Optional;

/**
 * A host and a port, in the form that users, configurations and messages use: {@code node-07:7411}, {@code
 * 192.0.2.7:7411}, {@code [2001:db8::7]:7411}.
 *
 * @param host a name or an address, without brackets
 * @param port 0 to 65535
 */
public record HostPort(String host, int port) {
    /** The expected form, for messages about an invalid text. */
    public static final String FORM = "HOST:PORT, such as node-07:7411 or [2001:db8::7]:7411";

    private static final int PORT_MAX = 0xFFFF;
    private static final int DIGITS_MAX = 5;

    /** Parses a text; empty if it has another form. An IPv6 address needs brackets. */
    public static Optional<HostPort> parse(String text) {
        int colon = text.lastIndexOf(':');
        String host = text.substring(0, Math.max(0, colon));
        boolean bracketed = host.startsWith("[") && host.endsWith("]");
        String bare = bracketed ? host.substring(1, host.length() - 1) : host;
        String port = text.substring(colon + 1);
        boolean sound = !bare.isEmpty()
                && (bracketed || !bare.contains(":"))
                && bare.indexOf('[') < 0
                && bare.indexOf(']') < 0
                && !port.isEmpty()
                && port.length() <= DIGITS_MAX
                && port.chars().allMatch(digit -> digit >= '0' && digit <= '9')
                && Integer.parseInt(port) <= PORT_MAX;
        return sound ? Optional.of(new HostPort(bare, Integer.parseInt(port))) : Optional.empty();
    }

    /** Parses a name that {@link #participant} produced. */
    public static HostPort ofParticipant(String participant) {
        int colon = participant.lastIndexOf(':');
        return new HostPort(participant.substring(0, colon), Integer.parseInt(participant.substring(colon + 1)));
    }

    /** Returns the name of a node in protocol and journal, which has no brackets. */
    public static String participant(InetSocketAddress address) {
        return address.getHostString() + ":" + address.getPort();
    }

    /**
     * Queries the name service. The result stays unresolved if the name is unknown. Blocks without a limit of its own.
     */
    public InetSocketAddress lookUp() {
        return new InetSocketAddress(host, port);
    }

    /** Returns an unresolved address, for a later lookup of the name. */
    public InetSocketAddress unresolved() {
        return InetSocketAddress.createUnresolved(host, port);
    }
}
