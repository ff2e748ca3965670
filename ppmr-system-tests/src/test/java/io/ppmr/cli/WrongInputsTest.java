package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.docs.OptionalParts;
import java.io.IOException;
import java.io.InputStream;
import java.io.StringWriter;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each wrong command line is answered with the thing, the cause and what to type: {@code wrong-inputs.txt}. */
class WrongInputsTest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final int LEAST = 125;

    @TempDir
    private static Path directory;

    /** A line of the list. */
    record WrongInput(String node, String line, int exitCode, List<String> pieces) {
        static WrongInput of(String text) {
            String[] columns = text.split("\\s*\\|\\s*", -1);
            return new WrongInput(
                    columns[0], columns[1], Integer.parseInt(columns[2]), List.of(columns[3].split(" & ", -1)));
        }

        @Override
        public String toString() {
            return node + ": ppmr " + line;
        }
    }

    /** The commands of optional parts. */
    private static final Pattern OF_A_PART =
            Pattern.compile("(help )?(pod|slurm-run|job|nodes)\\b|.*\\bcontroller\\.toml");

    static Stream<WrongInput> inputs() throws IOException {
        try (InputStream in = WrongInputsTest.class.getResourceAsStream("wrong-inputs.txt")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8)
                            .lines()
                            .filter(line -> !line.isBlank() && !line.startsWith("#"))
                            .map(WrongInput::of)
                            .toList()
                            .stream();
        }
    }

    @BeforeAll
    static void makeFiles() throws IOException {
        Files.createDirectory(directory.resolve("dir"));
        key("key", "rw-------");
        key("openkey", "rw-r--r--");
        String source = """
            mount = "m"
            work_directory = "w"
            journal = "j"
            control_socket = "source.sock"
            key_file = "key"
            """;
        String target = "listen = \"127.0.0.1:7411\"\n" + source.replace("source.sock", "target.sock");
        write("source.toml", source + "[target]\naddress = \"127.0.0.1:7411\"\n");
        write("target.toml", target);
        write("controller.toml", """
            listen = "127.0.0.1:7413"
            key_file = "key"
            controller_key_file = "key"
            control_socket = "controller.sock"
            """);
        write("good-source.toml", Files.readString(HOME.resolve("conf/source.toml")));
        write("good-target.toml", target + "[checkpointers.blcr]\ntype = \"blcr\"\n");
        write("dirkey.toml", target.replace("\"key\"", "\"dir\""));
        write("nokey.toml", target.replace("\"key\"", "\"no-such-key\""));
        write("openkey.toml", target.replace("\"key\"", "\"openkey\""));
        write("port.toml", target.replace("127.0.0.1:7411", "127.0.0.1:99999"));
        write("nottoml.toml", "mount = \nkey");
        Files.write(directory.resolve("binary.toml"), new byte[] {(byte) 0xff, (byte) 0xfe, 0, 1});
        write("unit.toml", target + "silence_limit = \"5 sec\"\n");
        write("typo.toml", target.replace("mount", "muont"));
        write("ranks.toml", source + "[ranks.0]\npid = 7\n");
        write("empty.toml", "");
        write("twice.toml", "mount = \"a\"\nmount = \"b\"\n");
        write("section.toml", source + "pool = 7\n");
        write("chunk.toml", target + "[pool]\nsize = \"8m\"\nchunk = \"100k\"\n");
        write("nohost.toml", target.replace("127.0.0.1:7411", "no-such-host.invalid:7411"));
        write("targetkey.toml", source + "stall_limit = \"5s\"\n[target]\naddress = \"127.0.0.1:7411\"\n");
        write("nouser.toml", source + "[jobs.a]\nuser = \"no such user\"\n");
        write("nochecker.toml", source + "[jobs.a]\nuser = 1\ncheckpointer = \"c\"\n");
        try (ServerSocketChannel dead = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            dead.bind(UnixDomainSocketAddress.of(directory.resolve("dead.sock")));
        }
        for (String node : List.of("none", "source", "target", "both", "controller", "all")) {
            Path installed = Files.createDirectories(directory.resolve("node-" + node + "/etc/ppmr"));
            for (String side : List.of("source", "target", "controller")) {
                boolean isOfBoth = node.equals("both") && !side.equals("controller");
                if (node.equals(side) || isOfBoth || node.equals("all")) {
                    Files.writeString(
                            installed.resolve(side + ".toml"),
                            Files.readString(directory.resolve(side + ".toml"))
                                    .replace(side + ".sock", directory + "/" + side + ".sock"));
                }
            }
        }
    }

    private static void key(String name, String permissions) throws IOException {
        write(name, "0123456789abcdef0123456789abcdef\n");
        Files.setPosixFilePermissions(directory.resolve(name), PosixFilePermissions.fromString(permissions));
    }

    private static void write(String name, String text) throws IOException {
        Files.writeString(directory.resolve(name), text);
    }

    @Test
    void shouldHaveAsManyAsWereTried() throws IOException {
        assertTrue(inputs().count() >= LEAST, "wrong inputs are missing");
    }

    @ParameterizedTest
    @MethodSource("inputs")
    void shouldNameThingCauseAndRemedyWhenTyped(WrongInput input) throws IOException {
        if (OF_A_PART.matcher(input.line()).lookingAt()) {
            OptionalParts.assumeAll();
        }
        Path root = directory.resolve("node-" + input.node());
        List<String> words = new ArrayList<>();
        for (String word : input.line().split(" ", -1)) {
            if (!word.isEmpty()) {
                words.add(filled(word, root));
            }
        }
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int exitCode = Main.execute(new CliContext(Map.of(), root, words), out, err);
        String printed = out + "" + err;
        assertEquals(input.exitCode(), exitCode, printed);
        for (String piece : input.pieces()) {
            assertTrue(printed.contains(filled(piece, root)), "'" + piece + "' is not in: " + printed);
        }
        assertFalse(printed.contains("\tat ") || printed.contains("Error: "), printed);
    }

    private static String filled(String text, Path root) {
        return text.replace("{d}", directory.toString()).replace("{r}", root.toString());
    }
}
