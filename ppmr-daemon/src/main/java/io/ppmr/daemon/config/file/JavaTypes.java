package io.ppmr.daemon.config.file;

import io.ppmr.checkpoint.files.PathPatterns;
import io.ppmr.linux.config.Key;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** The Java types that keys may have, and the form of their values in a file. */
final class JavaTypes {
    private static final Map<Type, ValueType<?>> KNOWN = Map.ofEntries(
            Map.entry(String.class, ValueType.TEXT),
            Map.entry(boolean.class, ValueType.FLAG),
            Map.entry(Boolean.class, ValueType.FLAG),
            Map.entry(Path.class, ValueType.PATH),
            Map.entry(long.class, ValueType.SIZE),
            Map.entry(Long.class, ValueType.SIZE),
            Map.entry(OptionalLong.class, ValueType.SIZE_OR_AUTO),
            Map.entry(Duration.class, ValueType.TIME),
            Map.entry(InetSocketAddress.class, ValueType.ADDRESS),
            Map.entry(InetAddress.class, ValueType.OWN_ADDRESS),
            Map.entry(Object.class, ValueType.NAME_OR_NUMBER));
    private static final Map<Type, ValueType<?>> LISTS = Map.of(
            String.class, ValueType.WORDS,
            InetSocketAddress.class, ValueType.ADDRESSES,
            Object.class, ValueType.NAMES_OR_NUMBERS);

    private JavaTypes() {}

    /** Returns the form of values of a Java type. Throws for a type that no key can have. */
    static ValueType<?> valueType(Type type, Key key) {
        if (type instanceof ParameterizedType list && list.getRawType() == List.class) {
            if (entries(type).isPresent()) {
                return ValueType.tables(key.example());
            }
            return LISTS.get(list.getActualTypeArguments()[0]).suchAs(key.example());
        }
        if (type == PathPatterns.class) {
            return ValueType.PATHS.suchAs(key.example());
        }
        if (type == int.class || type == Integer.class) {
            return ValueType.number(key.least(), key.most());
        }
        return KNOWN.containsKey(type) ? KNOWN.get(type) : ofClass((Class<?>) type);
    }

    /** Returns the record of the entries of a list of tables: one without a form as a text. */
    static Optional<Class<? extends Record>> entries(Type type) {
        return type instanceof ParameterizedType list
                        && list.getRawType() == List.class
                        && list.getActualTypeArguments()[0] instanceof Class<?> element
                        && element.isRecord()
                        && parser(element).isEmpty()
                ? Optional.of(element.asSubclass(Record.class))
                : Optional.empty();
    }

    private static ValueType<?> ofClass(Class<?> type) {
        return type.isEnum() ? ValueType.choice(type) : ofText(type);
    }

    /** Returns the form of a class with {@code parse(String)} and {@code FORM}. */
    private static ValueType<?> ofText(Class<?> type) {
        Method parser =
                parser(type).orElseThrow(() -> new IllegalArgumentException("no key can have the type " + type));
        try {
            String form = (String) type.getField("FORM").get(null);
            return new ValueType<>(
                    form, (value, reading) -> value instanceof String text ? parsed(parser, text) : null);
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException(type + " does not define its form", e);
        }
    }

    private static Optional<Method> parser(Class<?> type) {
        try {
            return Optional.of(type.getMethod("parse", String.class));
        } catch (NoSuchMethodException e) {
            return Optional.empty();
        }
    }

    private static Object parsed(Method parser, String text) {
        try {
            return ((Optional<?>) parser.invoke(null, text)).orElse(null);
        } catch (InvocationTargetException | IllegalAccessException e) {
            throw new IllegalArgumentException(parser + " cannot be used", e);
        }
    }
}
