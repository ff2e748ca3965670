package io.ppmr.checkpoint.state;

import io.ppmr.linux.BorrowedSocket;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The options of a socket that CRIU leaves out and that differ from those of a new socket. Immutable.
 *
 * @param pid its process, in that process's own PID namespace
 * @param descriptor its descriptor in the process
 * @param values value of each option, in hexadecimal, by {@link SocketOptionKind#name}
 */
public record SocketSettings(int pid, int descriptor, Map<String, String> values) {
    private static final HexFormat HEX = HexFormat.of();
    private static final int LEAST_WORDS = 3;

    public SocketSettings {
        values = Map.copyOf(values);
    }

    /** Returns the options as words, the process's number first. */
    public String words() {
        StringBuilder words = new StringBuilder(pid + " " + descriptor);
        for (SocketOptionKind option : SocketOptionKind.ALL) {
            String value = values.get(option.name());
            if (value != null) {
                words.append(' ').append(option.name()).append('=').append(value);
            }
        }
        return words.toString();
    }

    /** Parses the text of {@link #words}. Throws IllegalArgumentException if it is invalid. */
    public static SocketSettings parse(String text) {
        String[] words = text.split(" ", -1);
        if (words.length < LEAST_WORDS) {
            throw new IllegalArgumentException("'" + text + "' names no option of a socket");
        }
        Map<String, String> values = new LinkedHashMap<>();
        for (String word : Arrays.asList(words).subList(2, words.length)) {
            String[] parts = word.split("=", 2);
            SocketOptionKind option = SocketOptionKind.named(parts[0]);
            if (option == null || parts.length < 2 || !option.canHave(HEX.parseHex(parts[1]).length)) {
                throw new IllegalArgumentException("'" + word + "' is no moved option of a socket");
            }
            values.put(parts[0], parts[1]);
        }
        return new SocketSettings(Integer.parseInt(words[0]), Integer.parseInt(words[1]), values);
    }

    /**
     * Sets the options of a copy's socket.
     *
     * @param process its process, in this service's PID namespace
     * @return options that could not be set, in words, or empty if all could
     */
    public List<String> set(int process) {
        List<String> failed = new ArrayList<>();
        try (BorrowedSocket socket = BorrowedSocket.of(process, descriptor)) {
            for (SocketOptionKind option : SocketOptionKind.ALL) {
                String value = values.get(option.name());
                Optional<String> why = value == null
                        ? Optional.empty()
                        : socket.setOption(option.level(), option.number(), HEX.parseHex(value));
                why.ifPresent(text -> failed.add(
                        "option " + option.name() + " of its socket " + descriptor + " is not set (" + text + ")"));
            }
        } catch (IOException e) {
            failed.add("the options of its socket " + descriptor + " are not set (" + e.getMessage() + ")");
        }
        return failed;
    }
}
