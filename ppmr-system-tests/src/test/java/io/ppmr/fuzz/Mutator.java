package io.ppmr.fuzz;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/**
 * Makes inputs out of valid ones. It flips bits, sets lengths and counts to their extremes, and uses words of a
 * dictionary. It cuts pieces out, doubles them, inserts them, or takes them from another valid input. Some inputs are
 * random. It is immutable. The results depend only on the random numbers.
 */
public final class Mutator {
    private static final int MOST_CHANGES = 6;
    private static final int MOST_RANDOM_BYTES = 256;
    private static final long[] EXTREMES = {
        0,
        1,
        -1,
        2,
        Byte.MAX_VALUE,
        Byte.MIN_VALUE,
        255,
        256,
        8191,
        8192,
        8193,
        Short.MAX_VALUE,
        65535,
        65536,
        1 << 20,
        Integer.MAX_VALUE,
        Integer.MIN_VALUE,
        Integer.MAX_VALUE - 7L,
        1L << 32,
        Long.MAX_VALUE,
        Long.MIN_VALUE
    };

    private final List<byte[]> valid;
    private final int mostBytes;
    private final List<byte[]> dictionary;

    /**
     * @param valid inputs that are taken
     * @param mostBytes no input is longer
     * @param dictionary words that are put in
     */
    public Mutator(List<byte[]> valid, int mostBytes, String... dictionary) {
        this.valid = List.copyOf(valid);
        this.mostBytes = mostBytes;
        this.dictionary = Stream.of(dictionary)
                .map(word -> word.getBytes(StandardCharsets.UTF_8))
                .toList();
    }

    List<byte[]> valid() {
        return valid;
    }

    byte[] next(SplittableRandom random) {
        byte[] input;
        if (random.nextInt(16) == 0) {
            input = new byte[random.nextInt(MOST_RANDOM_BYTES)];
            random.nextBytes(input);
        } else {
            input = one(random).clone();
        }
        // Most are changed once, so that they get past the first look.
        for (int left = random.nextBoolean() ? 0 : random.nextInt(MOST_CHANGES); left >= 0; left--) {
            input = changed(input, random);
        }
        return input.length > mostBytes ? Arrays.copyOf(input, mostBytes) : input;
    }

    private byte[] one(SplittableRandom random) {
        return valid.get(random.nextInt(valid.size()));
    }

    private byte[] changed(byte[] input, SplittableRandom random) {
        int at = random.nextInt(input.length + 1);
        int to = Math.min(input.length, at + random.nextInt(random.nextBoolean() ? 9 : input.length + 1));
        switch (random.nextInt(dictionary.isEmpty() ? 9 : 13)) {
            case 0, 1 -> {
                if (at < input.length) {
                    input[at] ^= (byte) (1 << random.nextInt(8));
                }
                return input;
            }
            case 2 -> {
                if (at < input.length) {
                    input[at] = (byte) random.nextInt();
                }
                return input;
            }
            case 3 -> {
                return number(input, at, random);
            }
            case 4 -> {
                return Arrays.copyOf(input, at);
            }
            case 5 -> {
                return replaced(input, at, to, new byte[0], 1);
            }
            case 6 -> {
                // Doubled, or so often that what nests nests deeply.
                int times = random.nextInt(8) == 0 ? 1 + random.nextInt(4000) : 1;
                return replaced(input, at, at, Arrays.copyOfRange(input, at, to), times);
            }
            case 7 -> {
                byte[] other = one(random);
                int from = random.nextInt(other.length + 1);
                int length = random.nextInt(other.length - from + 1);
                return replaced(input, at, to, Arrays.copyOfRange(other, from, from + length), 1);
            }
            case 8 -> {
                byte[] noise = new byte[random.nextInt(16)];
                random.nextBytes(noise);
                return replaced(input, at, random.nextBoolean() ? at : to, noise, 1);
            }
            default -> {
                byte[] word = dictionary.get(random.nextInt(dictionary.size()));
                int times = random.nextInt(24) == 0 ? 1 + random.nextInt(4000) : 1;
                return replaced(input, at, random.nextBoolean() ? at : to, word, times);
            }
        }
    }

    private static byte[] number(byte[] input, int at, SplittableRandom random) {
        int bytes = 1 << random.nextInt(4);
        if (input.length < bytes) {
            return input;
        }
        boolean nearLength = random.nextInt(4) == 0;
        long value = nearLength ? input.length - 8L + random.nextInt(16) : EXTREMES[random.nextInt(EXTREMES.length)];
        ByteOrder order = random.nextBoolean() ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN;
        ByteBuffer buffer = ByteBuffer.wrap(input).order(order);
        int place = Math.min(at, input.length - bytes);
        switch (bytes) {
            case 1 -> buffer.put(place, (byte) value);
            case 2 -> buffer.putShort(place, (short) value);
            case 4 -> buffer.putInt(place, (int) value);
            default -> buffer.putLong(place, value);
        }
        return input;
    }

    /** Returns the input with the bytes between two offsets replaced by copies of a piece. */
    private byte[] replaced(byte[] input, int from, int to, byte[] piece, int times) {
        int room = Math.max(0, mostBytes - (input.length - (to - from)));
        int count = piece.length == 0 ? 0 : Math.min(times, room / piece.length);
        byte[] next = new byte[input.length - (to - from) + count * piece.length];
        System.arraycopy(input, 0, next, 0, from);
        for (int i = 0; i < count; i++) {
            System.arraycopy(piece, 0, next, from + i * piece.length, piece.length);
        }
        System.arraycopy(input, to, next, from + count * piece.length, input.length - to);
        return next;
    }
}
