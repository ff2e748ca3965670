package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/** The declarations of all keys, those of the optional parts, too. */
class DeclaredKeysTest {
    private static final ValueType.Reading READING = new ValueType.Reading(Path.of("/etc/ppmr"), false);

    static List<ConfigSection> sections() {
        return ConfigRoles.all().stream()
                .flatMap(role -> role.everything().stream())
                .flatMap(section -> Stream.concat(
                        Stream.of(section), section.keys().stream().flatMap(key -> key.entrySection().stream())))
                .distinct()
                .toList();
    }

    @ParameterizedTest
    @MethodSource("sections")
    void shouldReadDefaultAndExampleOfEachKeyWhenDeclared(ConfigSection section) throws BadValueException {
        assertTrue(section.doc().length() > 10, section.heading());
        for (ConfigKey key : section.keys()) {
            assertTrue(key.doc().length() > 10 && !key.type().form().isBlank(), key.name());
            if (key.defaultValue() != null) {
                key.type().parse(key.defaultValue(), READING);
            }
            key.type().parse(key.example(), READING);
            assertNotEquals(key.defaultValue(), key.example(), key.name());
            if (key.entrySection().isPresent()) {
                requireEntries(key.entrySection().get(), (TomlArray) key.example());
            }
        }
    }

    private static void requireEntries(ConfigSection entries, TomlArray example) throws BadValueException {
        for (int i = 0; i < example.size(); i++) {
            TomlTable entry = example.getTable(i);
            assertTrue(entries.names().containsAll(entry.keySet()), entry.toString());
            for (ConfigKey key : entries.keys()) {
                assertTrue(!key.required() || entry.contains(key.name()), key.name());
                if (entry.contains(key.name())) {
                    key.type().parse(entry.get(key.name()), READING);
                }
            }
        }
    }
}
