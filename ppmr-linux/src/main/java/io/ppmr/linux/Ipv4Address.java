package io.ppmr.linux;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An IPv4 address as a number, so that ranges can be iterated. Never looks up a name. Immutable.
 *
 * @param number from 0 to 2^32 - 1, with the first of the four bytes highest
 */
public record Ipv4Address(long number) implements Comparable<Ipv4Address> {
    /** The form that {@link #parse} reads, for messages. */
    public static final String FORM = "an IPv4 address, such as \"10.20.0.10\"";

    private static final long MAX = 0xFFFF_FFFFL;
    private static final int BITS = 32;
    private static final int BYTES = 4;
    private static final int BYTE_BITS = 8;
    private static final int BYTE_MASK = 0xFF;
    private static final String PART = "(0|[1-9]\\d{0,2})";
    private static final Pattern PATTERN = Pattern.compile(String.join("\\.", PART, PART, PART, PART));

    public Ipv4Address {
        if (number < 0 || number > MAX) {
            throw new IllegalArgumentException(number + " is not an IPv4 address");
        }
    }

    /** Parses the dotted form, such as 10.20.0.10; empty if the text is not an IPv4 address. */
    public static Optional<Ipv4Address> parse(String text) {
        Matcher matcher = PATTERN.matcher(text);
        if (!matcher.matches()) {
            return Optional.empty();
        }
        long number = 0;
        for (int part = 1; part <= BYTES; part++) {
            int value = Integer.parseInt(matcher.group(part));
            if (value > BYTE_MASK) {
                return Optional.empty();
            }
            number = number << BYTE_BITS | value;
        }
        return Optional.of(new Ipv4Address(number));
    }

    /** Returns the following address. Ranges never include the highest possible address. */
    public Ipv4Address next() {
        return new Ipv4Address(number + 1);
    }

    /** Returns true if both addresses have the same network of that many leading bits. */
    public boolean sharesNetwork(Ipv4Address other, int prefixBits) {
        return number >> (BITS - prefixBits) == other.number >> (BITS - prefixBits);
    }

    /** Returns the first address of the network of that many leading bits. */
    public Ipv4Address network(int prefixBits) {
        return new Ipv4Address(number >> (BITS - prefixBits) << (BITS - prefixBits));
    }

    /** Returns true for a host's address, which is neither the network address nor the broadcast address. */
    public boolean isHost(int prefixBits) {
        long hosts = (1L << (BITS - prefixBits)) - 1;
        return (number & hosts) != 0 && (number & hosts) != hosts;
    }

    /** Formats each of the four bytes and joins the results. */
    public String bytes(String format, String between) {
        StringBuilder text = new StringBuilder();
        for (int shift = BITS - BYTE_BITS; shift >= 0; shift -= BYTE_BITS) {
            text.append(text.isEmpty() ? "" : between).append(format.formatted(number >> shift & BYTE_MASK));
        }
        return text.toString();
    }

    @Override
    public int compareTo(Ipv4Address other) {
        return Long.compare(number, other.number);
    }

    @Override
    public String toString() {
        return bytes("%d", ".");
    }
}
