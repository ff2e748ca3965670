package io.ppmr.cli.config;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/** The forms in which values are written. */
final class ValueTypes {
    private static final Pattern NUMBER_AND_UNIT = Pattern.compile("(\\d{1,15})([a-z]*)");
    private static final Map<String, Integer> SIZE_SHIFTS = Map.of("k", 10, "m", 20, "g", 30, "t", 40);
    private static final Map<String, Long> TIME_MILLIS = Map.of("ms", 1L, "s", 1000L, "m", 60_000L, "h", 3_600_000L);
    private static final int MAX_PORT = 65535;

    static final ValueType<String> TEXT = of("a text in quotes", (value, reading) -> text(value, "a text in quotes"));

    static final ValueType<Boolean> FLAG = of("true or false", (value, reading) -> {
        if (value instanceof Boolean flag) {
            return flag;
        }
        throw bad(value, "true or false");
    });

    static final ValueType<Path> PATH = of("a path in quotes", (value, reading) -> {
        String path = text(value, "a path in quotes");
        if (path.isBlank() || path.indexOf('\0') >= 0) {
            throw bad(value, "a path in quotes");
        }
        return reading.folder().resolve(path).normalize();
    });

    static final ValueType<Long> SIZE = of("a size with its unit, such as 128k, 8m or 1g", (value, reading) -> {
        String form = "a size with its unit, such as 128k, 8m or 1g";
        Matcher matcher = NUMBER_AND_UNIT.matcher(unitText(value, form));
        if (matcher.matches()
                && matcher.group(1).equals("0")
                && matcher.group(2).isEmpty()) {
            return 0L;
        }
        if (!matcher.matches() || !SIZE_SHIFTS.containsKey(matcher.group(2))) {
            throw bad(value, form);
        }
        int shift = SIZE_SHIFTS.get(matcher.group(2));
        long number = Long.parseLong(matcher.group(1));
        if (number > Long.MAX_VALUE >> shift) {
            throw bad(value, form);
        }
        return number << shift;
    });

    static final ValueType<Duration> TIME =
            of("a time with its unit, such as 500ms, 30s, 10m or 1h", (value, reading) -> {
                String form = "a time with its unit, such as 500ms, 30s, 10m or 1h";
                Matcher matcher = NUMBER_AND_UNIT.matcher(unitText(value, form));
                if (!matcher.matches() || !TIME_MILLIS.containsKey(matcher.group(2))) {
                    throw bad(value, form);
                }
                long millis = Math.multiplyExact(Long.parseLong(matcher.group(1)), TIME_MILLIS.get(matcher.group(2)));
                if (millis == 0) {
                    throw new BadValueException("is 0: nothing can be done in no time; it must be " + form);
                }
                return Duration.ofMillis(millis);
            });

    static final ValueType<InetSocketAddress> ADDRESS =
            of("an address with its port, such as \"node-07:7411\"", (value, reading) -> {
                String form = "an address with its port, such as \"node-07:7411\" or \"[2001:db8::7]:7411\"";
                String address = text(value, form);
                int colon = address.lastIndexOf(':');
                if (colon <= 0 || !address.substring(colon + 1).matches("\\d{1,5}")) {
                    throw bad(value, form);
                }
                int port = Integer.parseInt(address.substring(colon + 1));
                String host = address.substring(0, colon);
                boolean bracketed = host.startsWith("[") && host.endsWith("]");
                if (port > MAX_PORT || (!bracketed && host.contains(":"))) {
                    throw bad(value, form);
                }
                host = bracketed ? host.substring(1, host.length() - 1) : host;
                if (!reading.here()) {
                    return InetSocketAddress.createUnresolved(host, port);
                }
                InetSocketAddress resolved = new InetSocketAddress(host, port);
                if (resolved.isUnresolved()) {
                    throw new BadValueException(
                            "host '" + host + "' is not known here: correct it, or make it known (hosts(5))");
                }
                return resolved;
            });

    static final ValueType<List<String>> WORDS = of("a list of words, such as [\"criu\"]", (value, reading) -> {
        String form = "a list of words, such as [\"criu\"]";
        List<?> array =
                value instanceof TomlArray written ? written.toList() : value instanceof List<?> list ? list : null;
        if (array == null) {
            throw bad(value, form);
        }
        List<String> words = new ArrayList<>();
        for (Object word : array) {
            words.add(text(word, form));
        }
        return List.copyOf(words);
    });

    /** Their names are looked up when they are used. */
    static final ValueType<List<InetSocketAddress>> ADDRESSES =
            of("a list of addresses, such as [\"node-07:7411\", \"node-08:7411\"]", (value, reading) -> {
                List<InetSocketAddress> addresses = new ArrayList<>();
                for (String word : WORDS.parse(value, reading)) {
                    addresses.add(ADDRESS.parse(word, new ValueType.Reading(reading.folder(), false)));
                }
                return List.copyOf(addresses);
            });

    /** A user or group: a name, or a number, which need not be known by name. */
    static final ValueType<Object> NAME_OR_NUMBER = of("a name in quotes or a number", (value, reading) -> {
        boolean number = value instanceof Long id && id >= 0 && id < Integer.MAX_VALUE;
        boolean name = value instanceof String text && text.matches("[^:\\s]+");
        if (!number && !name) {
            throw bad(value, "a name in quotes or a number");
        }
        return value;
    });

    /** Users or groups. */
    static final ValueType<List<Object>> NAMES_OR_NUMBERS =
            of("a list of names in quotes or numbers, such as [\"alice\", 1234]", (value, reading) -> {
                List<?> list =
                        value instanceof TomlArray written ? written.toList() : value instanceof List<?> l ? l : null;
                if (list == null) {
                    throw bad(value, "a list of names in quotes or numbers, such as [\"alice\", 1234]");
                }
                List<Object> all = new ArrayList<>();
                for (Object one : list) {
                    all.add(NAME_OR_NUMBER.parse(one, reading));
                }
                return List.copyOf(all);
            });

    /** A list of tables, which their section reads. */
    static final ValueType<TomlArray> TABLES =
            of("a list of tables, such as [{rank = 0, pid = 4711}]", (value, reading) -> {
                if (value instanceof TomlArray empty && empty.isEmpty()) {
                    throw new BadValueException(
                            "names none; it must be a list of tables, such as [{rank = 0, pid = 4711}]");
                }
                if (value instanceof TomlArray array && array.toList().stream().allMatch(TomlTable.class::isInstance)) {
                    return array;
                }
                throw bad(value, "a list of tables, such as [{rank = 0, pid = 4711}]");
            });

    private ValueTypes() {}

    static ValueType<Integer> number(int least, int most) {
        String form = "a whole number from " + least + " to " + most;
        return of(form, (value, reading) -> {
            if (value instanceof Long number && number >= least && number <= most) {
                return number.intValue();
            }
            throw bad(value, form);
        });
    }

    static <E extends Enum<E>> ValueType<E> choice(Class<E> type) {
        String names = Arrays.stream(type.getEnumConstants())
                .map(constant -> '"' + constant.name().toLowerCase(Locale.ROOT) + '"')
                .collect(Collectors.joining(", "));
        return of("one of " + names, (value, reading) -> {
            for (E constant : type.getEnumConstants()) {
                if (constant.name().toLowerCase(Locale.ROOT).equals(value)) {
                    return constant;
                }
            }
            throw bad(value, "one of " + names);
        });
    }

    private interface Parser<T> {
        T parse(Object value, ValueType.Reading reading) throws BadValueException;
    }

    private static <T> ValueType<T> of(String form, Parser<T> parser) {
        return new ValueType<>() {
            @Override
            public String form() {
                return form;
            }

            @Override
            public T parse(Object value, Reading reading) throws BadValueException {
                try {
                    return parser.parse(value, reading);
                } catch (ArithmeticException e) {
                    throw new BadValueException("'" + value + "' is too large; it must be " + form);
                }
            }
        };
    }

    private static String text(Object value, String form) throws BadValueException {
        if (value instanceof String text) {
            return text;
        }
        throw bad(value, form);
    }

    private static String unitText(Object value, String form) throws BadValueException {
        if (value instanceof Long number && number != 0) {
            throw new BadValueException(number + " has no unit; it must be " + form + ", in quotes");
        }
        return value instanceof Long ? "0" : text(value, form);
    }

    private static BadValueException bad(Object value, String form) {
        String shown = value instanceof String text
                ? "\"" + text + "\""
                : value instanceof Number || value instanceof Boolean ? value.toString() : "what stands there";
        return new BadValueException(shown + " will not do; it must be " + form);
    }
}
