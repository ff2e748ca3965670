package io.ppmr.daemon.config.file;

import io.ppmr.checkpoint.files.PathPatterns;
import io.ppmr.linux.HostPort;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlParseResult;
import org.tomlj.TomlTable;

/**
 * The type of a configuration value: its form in the file and its parser.
 *
 * @param form the form, to follow "must be" in messages and in the documentation
 * @param parser parses the form in the file, or null for a value of another form
 * @param <T> the Java type of the value
 */
public record ValueType<T>(String form, Parser<T> parser) {
    private static final Pattern NUMBER_AND_UNIT = Pattern.compile("(\\d{1,15})([a-z]*)");
    private static final Map<String, Long> SIZE_UNITS =
            Map.of("k", 1L << 10, "m", 1L << 20, "g", 1L << 30, "t", 1L << 40);
    private static final Map<String, Long> TIME_UNITS = Map.of("ms", 1L, "s", 1000L, "m", 60_000L, "h", 3_600_000L);
    private static final String SIZE_FORM = "a size with its unit, such as 128k, 8m or 1g";
    private static final String SIZE_OR_AUTO_FORM = "\"auto\", or " + SIZE_FORM;
    private static final String TIME_FORM = "a time with its unit, such as 500ms, 30s, 10m or 1h";
    private static final String ADDRESS_FORM = "an address with its port, such as \"node-07:7411\"";
    private static final Pattern PORT_AT_END = Pattern.compile(".*:(\\d+)");
    private static final int MAX_PORT = 0xFFFF;
    private static final int MAX_PORT_DIGITS = 5;
    /** Values that are written as in the file. All others are texts. */
    private static final Pattern NO_TEXT = Pattern.compile("\\[.*|true|false|-?\\d+", Pattern.DOTALL);

    public static final ValueType<String> TEXT =
            new ValueType<>("a text in quotes", (value, reading) -> value instanceof String text ? text : null);

    public static final ValueType<Boolean> FLAG =
            new ValueType<>("true or false", (value, reading) -> value instanceof Boolean flag ? flag : null);

    public static final ValueType<Path> PATH = new ValueType<>(
            "a path in quotes",
            (value, reading) -> value instanceof String path && !path.isBlank() ? resolved(path, reading) : null);

    public static final ValueType<Long> SIZE = new ValueType<>(
            SIZE_FORM,
            (value, reading) ->
                    value.equals("0") || value.equals(0L) ? Long.valueOf(0) : amount(value, SIZE_FORM, SIZE_UNITS));

    /** Empty if the service chooses. */
    public static final ValueType<OptionalLong> SIZE_OR_AUTO = new ValueType<>(SIZE_OR_AUTO_FORM, (value, reading) -> {
        if (value.equals("auto")) {
            return OptionalLong.empty();
        }
        Long size = amount(value, SIZE_OR_AUTO_FORM, SIZE_UNITS);
        return size == null ? null : OptionalLong.of(size);
    });

    public static final ValueType<Duration> TIME = new ValueType<>(TIME_FORM, (value, reading) -> {
        Long millis = amount(value, TIME_FORM, TIME_UNITS);
        if (millis != null && millis == 0) {
            throw new BadValueException("is 0: nothing can be done in no time; it must be " + TIME_FORM);
        }
        return millis == null ? null : Duration.ofMillis(millis);
    });

    public static final ValueType<InetSocketAddress> ADDRESS = new ValueType<>(ADDRESS_FORM, ValueType::address);

    public static final ValueType<List<String>> WORDS = new ValueType<>("a list of words", (value, reading) -> {
        List<?> list = list(value);
        return list != null && list.stream().allMatch(String.class::isInstance)
                ? list.stream().map(String.class::cast).toList()
                : null;
    });

    /** Absolute paths. Characters of the file represent their bytes in UTF-8. */
    public static final ValueType<PathPatterns> PATHS = new ValueType<>(
            "a list of absolute paths, in which * means any characters of a name and ** means anything",
            (value, reading) -> {
                List<String> words = WORDS.parse(value, reading);
                try {
                    return new PathPatterns(words.stream()
                            .map(word -> new String(word.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1))
                            .toList());
                } catch (IllegalArgumentException e) {
                    throw new BadValueException(e.getMessage());
                }
            });

    /** A numeric address of the node itself, which needs no look-up. */
    public static final ValueType<InetAddress> OWN_ADDRESS =
            new ValueType<>("an address of this node as numbers, such as \"10.1.0.1\"", (value, reading) -> {
                if (!(value instanceof String text) || !text.matches("[0-9a-fA-F.:]+")) {
                    return null;
                }
                try {
                    return InetAddress.getByName(text);
                } catch (UnknownHostException e) {
                    return null;
                }
            });

    /** Addresses whose names are looked up when they are used. */
    public static final ValueType<List<InetSocketAddress>> ADDRESSES =
            new ValueType<>("a list of addresses", (value, reading) -> {
                List<InetSocketAddress> addresses = new ArrayList<>();
                for (String word : WORDS.parse(value, reading)) {
                    addresses.add(ADDRESS.parse(word, new Reading(reading.folder(), false)));
                }
                return List.copyOf(addresses);
            });

    /** A user or group: a name, or a number, which may have no name. */
    public static final ValueType<Object> NAME_OR_NUMBER =
            new ValueType<>("a name in quotes or a number", (value, reading) -> {
                boolean number = value instanceof Long id && id >= 0 && id < Integer.MAX_VALUE;
                return number || (value instanceof String text && text.matches("[^:\\s]+")) ? value : null;
            });

    /** Users or groups. */
    public static final ValueType<List<Object>> NAMES_OR_NUMBERS =
            new ValueType<>("a list of names in quotes or numbers", (value, reading) -> {
                List<Object> all = new ArrayList<>();
                List<?> list = list(value);
                for (Object one : list == null ? List.of() : list) {
                    all.add(NAME_OR_NUMBER.parse(one, reading));
                }
                return list == null ? null : List.copyOf(all);
            });

    /**
     * The circumstances in which a value is read.
     *
     * @param folder the directory of the file, from which relative paths start
     * @param here whether the file is for this node: then users and hosts must be known
     */
    public record Reading(Path folder, boolean here) {}

    /** A bad value. The message has the mistake and the remedy. */
    public static final class BadValueException extends Exception {
        public BadValueException(String message) {
            super(message);
        }
    }

    /** Parses a value of the TOML parser: String, Long, Double, Boolean, TomlArray or TomlTable. */
    @FunctionalInterface
    public interface Parser<T> {
        T parse(Object value, Reading reading) throws BadValueException;
    }

    /** Parses a default or an example, where a text has no quotes. */
    static Object written(String text) {
        if (!NO_TEXT.matcher(text).matches()) {
            return text;
        }
        TomlParseResult parsed = Toml.parse("value = " + text);
        if (parsed.hasErrors()) {
            throw new IllegalArgumentException(text + " is not a value: " + parsed.errors());
        }
        return parsed.get("value");
    }

    /** Returns the same type, whose form has an example. */
    ValueType<T> suchAs(String example) {
        return new ValueType<>(form + ", such as " + example, parser);
    }

    /** Returns the type of a list of tables, which their section reads. The example follows "such as". */
    static ValueType<TomlArray> tables(String example) {
        String form = "a list of tables, such as " + example;
        return new ValueType<>(form, (value, reading) -> {
            if (value instanceof TomlArray empty && empty.isEmpty()) {
                throw new BadValueException("names none; it must be " + form);
            }
            return value instanceof TomlArray array && array.toList().stream().allMatch(TomlTable.class::isInstance)
                    ? array
                    : null;
        });
    }

    public static ValueType<Integer> number(int least, int most) {
        return new ValueType<>(
                "a whole number from " + least + " to " + most,
                (value, reading) -> value instanceof Long number && number >= least && number <= most
                        ? Integer.valueOf(number.intValue())
                        : null);
    }

    /** Returns the type of an enum: its constants in lower case. */
    static <E> ValueType<E> choice(Class<E> type) {
        Map<String, E> constants = new LinkedHashMap<>();
        for (E constant : type.getEnumConstants()) {
            constants.put(((Enum<?>) constant).name().toLowerCase(Locale.ROOT), constant);
        }
        String names = constants.keySet().stream().map(name -> '"' + name + '"').collect(Collectors.joining(", "));
        return new ValueType<>(
                "one of " + names, (value, reading) -> value instanceof String name ? constants.get(name) : null);
    }

    /** Parses a form in the file. */
    public T parse(Object value, Reading reading) throws BadValueException {
        T parsed;
        try {
            parsed = parser.parse(value, reading);
        } catch (ArithmeticException e) {
            throw new BadValueException("'" + value + "' is too large; it must be " + form);
        }
        if (parsed == null) {
            throw bad(value, form);
        }
        return parsed;
    }

    /** Parses a number with a unit, into the smallest unit, or null if it is none. */
    private static Long amount(Object value, String form, Map<String, Long> units) throws BadValueException {
        if (value instanceof Long number && number != 0) {
            throw new BadValueException(number + " has no unit; it must be " + form + ", in quotes");
        }
        Matcher matcher = NUMBER_AND_UNIT.matcher(value instanceof String text ? text : "");
        return matcher.matches() && units.containsKey(matcher.group(2))
                ? (Long) Math.multiplyExact(Long.parseLong(matcher.group(1)), units.get(matcher.group(2)))
                : null;
    }

    private static InetSocketAddress address(Object value, Reading reading) throws BadValueException {
        String text = value instanceof String written ? written : "";
        Matcher port = PORT_AT_END.matcher(text);
        if (port.matches() && !isPort(port.group(1))) {
            throw new BadValueException("port " + port.group(1) + " is not between 0 and 65535");
        }
        HostPort address =
                HostPort.parse(text).orElseThrow(() -> bad(value, ADDRESS_FORM + " or \"[2001:db8::7]:7411\""));
        if (!reading.here()) {
            return address.unresolved();
        }
        InetSocketAddress resolved = address.lookUp();
        if (resolved.isUnresolved()) {
            throw new BadValueException(
                    "host '" + address.host() + "' is not known here: correct it, or make it known (hosts(5))");
        }
        return resolved;
    }

    private static boolean isPort(String digits) {
        return digits.length() <= MAX_PORT_DIGITS && Integer.parseInt(digits) <= MAX_PORT;
    }

    private static List<?> list(Object value) {
        return value instanceof TomlArray written ? written.toList() : value instanceof List<?> list ? list : null;
    }

    private static BadValueException bad(Object value, String form) {
        return new BadValueException(shown(value) + " is not valid; it must be " + form);
    }

    private static String shown(Object value) {
        return value instanceof String text
                ? "\"" + text + "\""
                : value instanceof Number || value instanceof Boolean ? value.toString() : "what stands there";
    }

    /** Parses a path. Returns null for a NUL in it, or for characters that file names of this node cannot have. */
    private static Path resolved(String path, Reading reading) {
        try {
            return reading.folder().resolve(path).normalize();
        } catch (InvalidPathException e) {
            return null;
        }
    }
}
