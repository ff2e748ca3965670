package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests the native client with services that answer whatever a test wants. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class NativeClientTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final int OTHERWISE = 64;
    private static final int RUNS = 300;

    @TempDir
    private Path folder;

    private Path socket() {
        return folder.resolve("run/source.sock");
    }

    private Command.CommandResult client(String... words) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(
                NativePrograms.fromSystemProperty()
                        .directory()
                        .resolve("ppmr-client")
                        .toString(),
                folder.toString(),
                folder.resolve("etc").toString(),
                folder.resolve("run").toString()));
        command.addAll(List.of(words));
        return Command.of(command).run(LIMIT);
    }

    private ServerSocketChannel service() throws IOException {
        Files.createDirectories(socket().getParent());
        return ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(socket()));
    }

    /** Answers one connection, and returns what was asked. */
    private static CompletableFuture<String> answer(ServerSocketChannel service, byte[] answer) {
        return CompletableFuture.supplyAsync(() -> {
            try (SocketChannel connection = service.accept()) {
                ByteBuffer asked = ByteBuffer.allocate(4096);
                while (asked.position() == 0 || asked.get(asked.position() - 1) != '\n') {
                    if (connection.read(asked) < 0) {
                        break;
                    }
                }
                ByteBuffer left = ByteBuffer.wrap(answer);
                while (left.hasRemaining()) {
                    connection.write(left);
                }
                return new String(asked.array(), 0, asked.position(), StandardCharsets.UTF_8);
            } catch (IOException e) {
                return e.toString();
            }
        });
    }

    private static byte[] line(Object value) throws IOException {
        return (new ObjectMapper().writeValueAsString(value) + "\n").getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void shouldPrintEachLineWhateverCharactersItHas() throws Exception {
        SplittableRandom random = new SplittableRandom(41);
        try (ServerSocketChannel service = service()) {
            for (int run = 0; run < RUNS; run++) {
                List<String> lines = new ArrayList<>();
                StringBuilder expected = new StringBuilder();
                for (int at = random.nextInt(5); at > 0; at--) {
                    StringBuilder text = new StringBuilder();
                    StringBuilder shown = new StringBuilder();
                    for (int length = random.nextInt(40); length > 0; length--) {
                        int bound = random.nextBoolean() ? 0x80 : random.nextBoolean() ? 0x3000 : 0x11_0000;
                        int character = random.nextInt(bound);
                        if (character >= 0xd800 && character < 0xe000) {
                            continue;
                        }
                        text.appendCodePoint(character);
                        boolean obeyed = character < ' ' || character == 0x7f;
                        boolean escaped = character == '\b'
                                || character == '\t'
                                || character == '\n'
                                || character == '\f'
                                || character == '\r';
                        shown.appendCodePoint(escaped ? ' ' : obeyed ? '?' : character);
                    }
                    lines.add(text.toString());
                    expected.append(shown).append('\n');
                }
                CompletableFuture<String> asked = answer(service, line(Map.of("lines", lines)));
                Command.CommandResult result = client("status");
                assertEquals("{\"lines\":true,\"request\":\"status\"}\n", asked.get());
                assertEquals(0, result.exitCode(), "run " + run);
                assertEquals(expected.toString().strip(), result.output().strip(), "run " + run);
            }
        }
    }

    /** The command line in Java asks again, and describes the failure. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "\n",
                "{}\n",
                "{\"lines\":[\"a\",\n",
                "{\"lines\":[\"a\\u12\n",
                "{\"lines\":[\"a\\\n",
                "{\"lines\":[\"a\"\"b\"]}\n",
                "{\"lines\":[\"a\"],\"x\":1}\n",
                "{\"lines\":[1]}\n",
                "{\"lines\":{}}\n",
                "{\"lines\":\n",
                "{\"refused\":\"no\"}\n",
                "{\"error\":\"no\"}\n",
                "{\"lines\":[\"no end\"]}"
            })
    void shouldPrintNothingWhenTheAnswerIsAnotherOne(String text) throws Exception {
        try (ServerSocketChannel service = service()) {
            CompletableFuture<String> asked = answer(service, text.getBytes(StandardCharsets.UTF_8));
            Command.CommandResult result = client("status");
            assertEquals(OTHERWISE, result.exitCode());
            assertEquals("", result.output());
            asked.get();
        }
    }

    @Test
    void shouldEndWhenTheServiceDoesNotAnswer() throws Exception {
        try (ServerSocketChannel service = service()) {
            long startNs = System.nanoTime();
            assertEquals(OTHERWISE, client("status").exitCode());
            assertTrue(System.nanoTime() - startNs < LIMIT.toNanos());
            assertTrue(service.isOpen());
        }
    }

    @Test
    void shouldLeaveToTheCommandLineWhatIsNotAShortQuestion() throws Exception {
        try (ServerSocketChannel service = service()) {
            service.configureBlocking(false);
            for (String words : List.of(
                    "",
                    "status --watch",
                    "status --help",
                    "status --config x",
                    "status more",
                    "status --socket",
                    "cancel",
                    "cancel --json id",
                    "cancel one two",
                    "cancel a\"b",
                    "pod",
                    "pod show one",
                    "pod list --json",
                    "migrate",
                    "status --socket " + folder.resolve("none"))) {
                assertEquals(
                        OTHERWISE,
                        client(words.isEmpty() ? new String[0] : words.split(" ", -1))
                                .exitCode(),
                        words);
            }
            assertEquals(null, service.accept(), "no question came");
        }
    }

    @Test
    void shouldLeaveToTheCommandLineWhenBothSidesAreInUse() throws Exception {
        Path etc = Files.createDirectories(folder.resolve("etc"));
        Path examples = Files.createDirectories(folder.resolve("conf"));
        Files.writeString(examples.resolve("target.toml"), "example");
        try (ServerSocketChannel service = service()) {
            Files.writeString(etc.resolve("target.toml"), "example");
            CompletableFuture<String> asked = answer(service, line(Map.of("lines", List.of("idle"))));
            assertEquals("idle", client("status").output().strip());
            asked.get();
            Files.writeString(etc.resolve("target.toml"), "changed");
            assertEquals(OTHERWISE, client("status").exitCode());
            asked = answer(service, line(Map.of("cancelling", "m1")));
            Command.CommandResult named = client("cancel", "m", "--socket=" + socket());
            assertEquals("migration m1 is being rolled back", named.output().strip());
            assertEquals("{\"id\":\"m\",\"request\":\"cancel\"}\n", asked.get());
        }
    }
}
