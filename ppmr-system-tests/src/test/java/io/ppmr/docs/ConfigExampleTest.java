package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.ppmr.daemon.config.ConfigExample;
import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ConfigSection;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The example of each role's file, with the keys of the optional parts. */
class ConfigExampleTest {
    @TempDir
    private Path folder;

    static List<ConfigRole> roles() {
        return ConfigRoles.all();
    }

    private Path file(List<String> lines) throws IOException {
        return Files.write(folder.resolve("example.toml"), lines);
    }

    @ParameterizedTest
    @MethodSource("roles")
    void shouldBeAGoodFileOfItsRoleWhenPrinted(ConfigRole role) throws Exception {
        Path file = file(ConfigExample.of(role).lines().toList());
        assertEquals(role, ConfigRoles.of(file));
        ConfigRoles.check(role, file, false);
    }

    /** Keys that exclude each other are the only mistakes that the file has with a further key. */
    @ParameterizedTest
    @MethodSource("roles")
    void shouldKnowEachKeyAndReadItsExampleWhenItIsSet(ConfigRole role) throws Exception {
        List<String> printed = ConfigExample.of(role).lines().toList();
        int set = 0;
        String heading = "";
        for (int at = 0; at < printed.size(); at++) {
            String line = printed.get(at);
            if (line.startsWith("[") || line.startsWith("#[")) {
                heading = line;
            }
            if (!line.matches("#[a-z_0-9]+ = .*")) {
                continue;
            }
            List<String> lines = new ArrayList<>(printed);
            lines.set(at, line.substring(1));
            lines.replaceAll(withSection(heading));
            String mistakes = mistakes(role, lines);
            assertFalse(
                    mistakes.contains("no such key") || mistakes.contains("is not valid") || mistakes.contains("TOML"),
                    line + ": " + mistakes);
            set++;
        }
        int declared = role.everything().stream()
                .map(ConfigSection::keys)
                .mapToInt(List::size)
                .sum();
        int needed = (int)
                printed.stream().filter(line -> line.matches("[a-z_0-9]+ = .*")).count();
        assertEquals(declared, set + needed);
    }

    private static UnaryOperator<String> withSection(String heading) {
        return line -> heading.startsWith("#") && line.equals(heading) ? heading.substring(1) : line;
    }

    private String mistakes(ConfigRole role, List<String> lines) throws IOException {
        try {
            ConfigRoles.check(role, file(lines), false);
            return "";
        } catch (ConfigException e) {
            return e.getMessage();
        }
    }
}
