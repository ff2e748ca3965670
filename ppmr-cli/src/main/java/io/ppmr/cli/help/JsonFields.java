package io.ppmr.cli.help;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.introspect.BeanPropertyDefinition;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/** Lists the fields of a JSON value out of the records that it is written from. */
final class JsonFields {
    private static final Set<Class<?>> WHOLE =
            Set.of(int.class, long.class, short.class, Integer.class, Long.class, Short.class);

    private static final ObjectMapper JSON = new ObjectMapper();

    private JsonFields() {}

    /** A field with its path, such as {@code ranks[].pids[]}. */
    record JsonField(String path, String type) {}

    /** Returns the fields of a type, nested ones after their parent. */
    static List<JsonField> of(JsonResult result) {
        if (!result.value().isRecord()) {
            throw new IllegalArgumentException("the fields of " + result.value() + " are unknown: it is not a record");
        }
        List<JsonField> fields = new ArrayList<>();
        add(fields, result.list() ? "[]." : "", result.value());
        return fields;
    }

    private static void add(List<JsonField> fields, String prefix, Class<?> type) {
        if (!type.isRecord()) {
            return;
        }
        Map<String, String> names = new HashMap<>();
        for (BeanPropertyDefinition property : JSON.getSerializationConfig()
                .introspect(JSON.constructType(type))
                .findProperties()) {
            names.put(property.getInternalName(), property.getName());
        }
        for (RecordComponent component : type.getRecordComponents()) {
            Type declared = component.getGenericType();
            String path = prefix + names.getOrDefault(component.getName(), component.getName());
            while (isCollection(declared)) {
                declared = ((ParameterizedType) declared).getActualTypeArguments()[0];
                path += "[]";
            }
            Class<?> raw = raw(declared);
            fields.add(new JsonField(path, word(raw)));
            add(fields, path + ".", raw);
        }
    }

    private static boolean isCollection(Type type) {
        return type instanceof ParameterizedType
                && (Collection.class.isAssignableFrom(raw(type)) || raw(type) == Optional.class);
    }

    private static Class<?> raw(Type type) {
        if (type instanceof ParameterizedType parameterized) {
            return (Class<?>) parameterized.getRawType();
        }
        return type instanceof Class<?> known ? known : Object.class;
    }

    private static String word(Class<?> type) {
        if (WHOLE.contains(type)) {
            return "whole number";
        }
        if (type == double.class || type == Double.class) {
            return "number";
        }
        if (type == boolean.class || type == Boolean.class) {
            return "true or false";
        }
        if (type.isEnum()) {
            return Arrays.stream(type.getEnumConstants())
                    .map(one -> ((Enum<?>) one).name())
                    .collect(Collectors.joining(", "));
        }
        return type.isRecord() || Map.class.isAssignableFrom(type)
                ? "object"
                : type == String.class ? "text" : type.getSimpleName().toLowerCase(Locale.ROOT);
    }
}
