package io.ppmr.pods;

import io.ppmr.linux.Ipv4Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.Optional;

/**
 * A network of IPv6 addresses. The last four bytes of a pod's IPv6 address are its IPv4 address. Never looks up a name.
 * It is immutable.
 *
 * @param first its first address; the last four bytes are zero
 * @param prefixBits how many leading bits of an address name it
 */
public record Ipv6Network(String first, int prefixBits) {
    /** The form that {@link #parse} reads, for messages. */
    public static final String FORM =
            "an IPv6 network of unicast addresses with at most 96 leading bits, such as \"fd00:20::/64\"";

    private static final int BYTES = 16;
    private static final int NUMBER_BYTES = 4;
    private static final int BYTE_BITS = 8;
    private static final int LEAST_PREFIX_BITS = 16;
    private static final int MOST_PREFIX_BITS = (BYTES - NUMBER_BYTES) * BYTE_BITS;
    private static final int MULTICAST = 0xff;
    private static final int LINK_LOCAL = 0xfe;

    /**
     * Parses a network such as fd00:20::/64. Returns empty if the text is no network, or if it has no four bytes for
     * the pods.
     */
    public static Optional<Ipv6Network> parse(String text) {
        String[] parts = text.split("/", -1);
        if (parts.length != 2 || !parts[0].matches("[0-9a-fA-F:]{2,39}") || !parts[1].matches("[1-9]\\d{0,2}")) {
            return Optional.empty();
        }
        int bits = Integer.parseInt(parts[1]);
        Optional<byte[]> bytes = bytes(parts[0]);
        if (bytes.isEmpty() || bits < LEAST_PREFIX_BITS || bits > MOST_PREFIX_BITS) {
            return Optional.empty();
        }
        int head = bytes.get()[0] & 0xff;
        for (int bit = bits; bit < BYTES * BYTE_BITS; bit++) {
            if ((bytes.get()[bit / BYTE_BITS] & (0x80 >> (bit % BYTE_BITS))) != 0) {
                return Optional.empty();
            }
        }
        return head == 0 || head == MULTICAST || head == LINK_LOCAL
                ? Optional.empty()
                : Optional.of(new Ipv6Network(text(bytes.get()), bits));
    }

    /** Returns the address that belongs to an IPv4 address, in the form of {@link #first}. */
    String addressOf(Ipv4Address number) {
        byte[] bytes = bytes(first).orElseThrow();
        for (int i = 0; i < NUMBER_BYTES; i++) {
            bytes[BYTES - 1 - i] = (byte) (number.number() >> (i * BYTE_BITS));
        }
        return text(bytes);
    }

    private static Optional<byte[]> bytes(String literal) {
        try {
            // Text with a colon is parsed as an address, never looked up as a name.
            byte[] bytes =
                    literal.contains(":") ? InetAddress.getByName(literal).getAddress() : new byte[0];
            return bytes.length == BYTES ? Optional.of(bytes) : Optional.empty();
        } catch (UnknownHostException none) {
            return Optional.empty();
        }
    }

    /** Formats it without its longest run of zeros, as ip(8) does (RFC 5952). */
    private static String text(byte[] bytes) {
        String[] groups = new String[BYTES / 2];
        Arrays.setAll(
                groups, i -> Integer.toHexString(((bytes[2 * i] & 0xff) << BYTE_BITS) | (bytes[2 * i + 1] & 0xff)));
        int from = 0;
        int to = 0;
        for (int begin = 0; begin < groups.length; begin++) {
            int end = begin;
            while (end < groups.length && groups[end].equals("0")) {
                end++;
            }
            if (end - begin > to - from) {
                from = begin;
                to = end;
            }
        }
        if (to - from < 2) {
            return String.join(":", groups);
        }
        return String.join(":", Arrays.copyOf(groups, from)) + "::"
                + String.join(":", Arrays.copyOfRange(groups, to, groups.length));
    }

    @Override
    public String toString() {
        return first + "/" + prefixBits;
    }
}
