package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.FileLooker.Question;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.linux.Command;
import java.io.File;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tests the inspection of files by a process of the job's user. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FileLookerIT {
    /** Programs of distributions have build IDs. The tree's own have none. */
    private static final Path WITH_BUILD_ID = Path.of("/bin/cat");

    private static final JobUser USER = new JobUser(41_378, 41_378);
    private static final NativePrograms PROGRAMS = new NativePrograms(Path.of(System.getProperty("ppmr.native.dir")));
    private static final int DENIED = 13;
    private static final int MISSING = 2;
    private static final int STALE = 116;

    @TempDir
    private Path folder;

    private final ContentDigests digests = new ContentDigests();

    private FileLooker looker() throws CheckpointException, IOException {
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        return FileLooker.start(PROGRAMS, USER, digests, () -> false);
    }

    private static Question at(Path path) {
        return new Question(
                "", new String(path.toString().getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1));
    }

    private static FileFacts facts(FileLooker looker, Path path) throws CheckpointException {
        String line = looker.look(List.of(at(path))).get(0);
        return FileFacts.parse(line).orElseThrow(() -> new IllegalStateException(line));
    }

    @Test
    void shouldSeeWhatTheUserSeesAndNoMore() throws Exception {
        Path open = Files.writeString(folder.resolve("open"), "12345");
        Path closed = Files.createDirectory(folder.resolve("closed"));
        Path secret = Files.writeString(closed.resolve("secret"), "1");
        Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("rwx------"));
        Path link = Files.createSymbolicLink(folder.resolve("link"), secret);
        try (FileLooker looker = looker()) {
            List<String> lines = looker.look(List.of(at(open), at(secret), at(link), at(folder.resolve("none"))));
            assertEquals(5, FileFacts.parse(lines.get(0)).orElseThrow().lengthBytes());
            assertEquals(DENIED, FileFacts.error(lines.get(1)));
            assertEquals(DENIED, FileFacts.error(lines.get(2)));
            assertEquals(MISSING, FileFacts.error(lines.get(3)));
        }
    }

    /** A shell redirects its standard output for one command. */
    @Test
    void shouldInspectTheNamedFileWhenTheDescriptorIsReplacedAgainAndAgain() throws Exception {
        Path own = Files.createDirectory(folder.resolve("own"));
        Files.setPosixFilePermissions(own, PosixFilePermissions.fromString("rwxrwxrwx"));
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        Process shell = new ProcessBuilder(
                        PROGRAMS.launch().toString(),
                        "--uid",
                        "" + USER.uid(),
                        "--gid",
                        "" + USER.gid(),
                        "--",
                        "bash",
                        "-c",
                        "echo >\"$0\"; echo >&2; while :; do echo >\"$0\"; done",
                        own.resolve("out").toString())
                .redirectOutput(new File("/dev/null"))
                .start();
        try (FileLooker looker = looker()) {
            assertEquals('\n', shell.getErrorStream().read());
            Question output = new Question("/proc/" + shell.pid() + "/fd/1", "/dev/null");
            for (int i = 0; i < 500; i++) {
                String line = looker.look(List.of(output)).get(0);
                FileFacts facts = FileFacts.parse(line).orElseThrow(() -> new IllegalStateException(line));
                assertTrue(facts.isDevice(), line);
            }
            Question other = new Question(output.first(), "/dev/zero");
            assertEquals(STALE, FileFacts.error(looker.look(List.of(other)).get(0)));
        } finally {
            shell.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldTakeNamesOfAnyBytes() throws Exception {
        List<Path> files = new ArrayList<>();
        for (String name : List.of("a\nfound 1 2", "blank ", "x (deleted)", "ta\tb", "b\\012", "\u00e4\u4e2d")) {
            files.add(Files.writeString(folder.resolve(name), name));
        }
        try (FileLooker looker = looker()) {
            List<String> lines =
                    looker.look(files.stream().map(FileLookerIT::at).toList());
            for (int at = 0; at < files.size(); at++) {
                assertEquals(
                        Files.size(files.get(at)),
                        FileFacts.parse(lines.get(at)).orElseThrow().lengthBytes(),
                        files.get(at).toString());
            }
        }
    }

    @Test
    void shouldTellProgramsByTheirBuildIdAndOtherFilesByADigest() throws Exception {
        Path program = WITH_BUILD_ID;
        Path data = Files.write(folder.resolve("data"), new byte[300_000]);
        Files.setLastModifiedTime(data, FileTime.from(Instant.now().minusSeconds(60)));
        try (FileLooker looker = looker()) {
            Path copy = Files.copy(program, folder.resolve("program"));
            String id = looker.content(at(copy), facts(looker, copy), true, Duration.ofSeconds(20));
            assertTrue(id.matches("id [0-9a-f]{40} " + Files.size(program)), id);
            String sum = HexFormat.of()
                    .formatHex(MessageDigest.getInstance("SHA-256").digest(new byte[300_000]));
            assertEquals(
                    "sha256 " + sum + " 300000",
                    looker.content(at(data), facts(looker, data), true, Duration.ofSeconds(20)));
            // Its content changes, but its length does not.
            byte[] other = new byte[300_000];
            other[299_999] = 1;
            Files.write(data, other);
            assertNotEquals(
                    "sha256 " + sum + " 300000",
                    looker.content(at(data), facts(looker, data), true, Duration.ofSeconds(20)));
            String closed = looker.content(at(folder), facts(looker, folder), true, Duration.ofSeconds(20));
            assertEquals(22, FileFacts.error(closed));
        }
    }

    /** Two programs can have one build ID, which is chosen when they are built. */
    @Test
    void shouldTellAProgramByADigestWhenItIsOnlyRead() throws Exception {
        try (FileLooker looker = looker()) {
            Path one = Files.copy(WITH_BUILD_ID, folder.resolve("one"));
            byte[] bytes = Files.readAllBytes(one);
            bytes[bytes.length - 1] ^= 1;
            Path other = Files.write(folder.resolve("other"), bytes);
            for (Path file : List.of(one, other)) {
                Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
                Files.setLastModifiedTime(file, FileTime.from(Instant.now().minusSeconds(60)));
            }
            Duration limit = Duration.ofSeconds(20);
            String id = looker.content(at(one), facts(looker, one), true, limit);
            assertEquals(id, looker.content(at(other), facts(looker, other), true, limit));
            String sum = looker.content(at(one), facts(looker, one), false, limit);
            assertTrue(sum.startsWith("sha256 "), sum);
            assertNotEquals(sum, looker.content(at(other), facts(looker, other), false, limit));
        }
    }

    /** It runs as another user than its parent, and calls nothing that would protect it. */
    @Test
    void shouldNotBeOpenToItsUserFromItsFirstInstructionOnWhenItMayNotBeRead() throws Exception {
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        assertEquals("rwx--x--x", PosixFilePermissions.toString(Files.getPosixFilePermissions(PROGRAMS.look())));
        Path closed = Files.copy(Path.of("/bin/sleep"), folder.resolve("closed"));
        Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("rwx--x--x"));
        Path open = Files.copy(Path.of("/bin/sleep"), folder.resolve("open"));
        Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxr-xr-x"));
        assertFalse(isOpenToItsUser(closed));
        assertTrue(isOpenToItsUser(open));
    }

    private static boolean isOpenToItsUser(Path program) throws Exception {
        Process process = asUser(program.toString(), "60").start();
        try {
            assertTrue(
                    Polling.until(Duration.ofSeconds(20), () -> process.info()
                            .command()
                            .filter(program.toString()::equals)
                            .isPresent()),
                    program + " runs");
            return asUser("cat", "/proc/" + process.pid() + "/maps").start().waitFor() == 0;
        } finally {
            process.destroyForcibly().waitFor();
        }
    }

    private static ProcessBuilder asUser(String... command) {
        List<String> words = new ArrayList<>(
                List.of(PROGRAMS.launch().toString(), "--uid", "" + USER.uid(), "--gid", "" + USER.gid(), "--"));
        words.addAll(List.of(command));
        return new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD);
    }

    /** The service may have died while a server delays the answer, so no process reads the end of the queries. */
    @Test
    void shouldEndWhenItsAskerIsGone() throws Exception {
        Process look = asUser(PROGRAMS.look().toString())
                .redirectOutput(ProcessBuilder.Redirect.PIPE)
                .start();
        try {
            assertTrue(Polling.until(Duration.ofSeconds(20), () -> !children().isEmpty()));
            List<ProcessHandle> answering = stop();
            look.getOutputStream().close();
            assertTrue(Polling.until(Duration.ofSeconds(5), () -> haveEnded(answering)), "it is killed");
            assertTrue(look.waitFor(5, TimeUnit.SECONDS), "so is what watches it");
        } finally {
            look.destroyForcibly();
        }
    }

    @Test
    void shouldReadAFileWithoutItsHolesAndTellWhatItTakes() throws Exception {
        Path sparse = folder.resolve("sparse");
        try (FileChannel file = FileChannel.open(sparse, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            file.write(ByteBuffer.wrap(new byte[] {1, 2, 3}), 8L << 20);
            file.write(ByteBuffer.wrap(new byte[] {4}), (1L << 30) - 1);
        }
        Map<Long, Byte> read = new TreeMap<>();
        try (FileLooker looker = looker()) {
            String data = looker.dataBytes(List.of(at(sparse))).get(0);
            assertTrue(Long.parseLong(data.replace("data ", "")) <= 64 << 10, data);
            looker.read(
                    at(sparse),
                    new FileLooker.Runs() {
                        @Override
                        public void begin(FileFacts facts) {
                            assertEquals(1L << 30, facts.lengthBytes());
                        }

                        @Override
                        public void piece(long offset, byte[] bytes, int length) {
                            for (int i = 0; i < length; i++) {
                                if (bytes[i] != 0) {
                                    read.put(offset + i, bytes[i]);
                                }
                            }
                        }
                    },
                    Duration.ofSeconds(20));
        }
        long at = 8L << 20;
        assertEquals(Map.of(at, (byte) 1, at + 1, (byte) 2, at + 2, (byte) 3, (1L << 30) - 1, (byte) 4), read);
    }

    /** Each row has root's change in the folder, and the answer about a file in it. */
    @ParameterizedTest
    @CsvSource({
        "'', 'room '",
        "'echo x >f; chown 41378 f', ' 1'",
        "'chmod 755 .; chown 0 .', error 13",
        "'rmdir ../place', error 2",
        "'cd ..; mv place other; ln -s other place', error 20",
        "'ln -s /etc/passwd f', error 17",
        "'mkfifo f; chown 41378 f', error 17",
        "'mknod f c 1 3; chown 41378 f', error 17",
        "'echo x >../others; ln ../others f', error 17",
    })
    void shouldTellWhetherTheUserCanPutAFileAtItsPlace(String change, String answer) throws Exception {
        Path place = Files.createDirectory(folder.resolve("place"));
        Files.setAttribute(place, "unix:uid", USER.uid());
        Command.of(List.of("sh", "-c", "cd " + place + "; " + change)).run(Duration.ofSeconds(20));
        String path = place.resolve("f").toString();
        try (FileLooker looker = looker()) {
            String output = looker.room(List.of(new Question("41378", path))).get(0);
            assertTrue(output.contains(answer), output);
            String group = looker.room(List.of(new Question("0", path))).get(0);
            assertTrue(group.startsWith("error "), group);
            for (String leading : List.of("/../place/f", "/./f", "//f", "f")) {
                String other = looker.room(List.of(new Question("41378", leading.equals("f") ? "f" : place + leading)))
                        .get(0);
                assertTrue(FileFacts.error(other) != 0, other);
            }
        }
    }

    /** The process is stopped, like one that waits for a server in the kernel. It never answers. */
    @Test
    void shouldFailInTimeAndByNameWhenNoAnswerComes() throws Exception {
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        try (FileLooker looker = FileLooker.start(PROGRAMS, USER, digests, () -> false, Duration.ofMillis(300))) {
            looker.look(List.of(at(folder)));
            List<ProcessHandle> answering = stop();
            CheckpointException e = assertThrows(CheckpointException.class, () -> looker.look(List.of(at(folder))));
            assertTrue(e.getMessage().contains("as user 41378 (ppmr-look): no answer about "), e.getMessage());
            assertTrue(Polling.until(Duration.ofSeconds(20), () -> haveEnded(answering)), "it is killed");
        }
    }

    @Test
    void shouldHearWithinASecondThatItIsCalledOff() throws Exception {
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        AtomicBoolean over = new AtomicBoolean();
        try (FileLooker looker = FileLooker.start(PROGRAMS, USER, digests, over::get)) {
            looker.look(List.of(at(folder)));
            List<ProcessHandle> answering = stop();
            over.set(true);
            long startNs = System.nanoTime();
            assertThrows(CheckpointException.class, () -> looker.look(List.of(at(folder))));
            assertTrue(System.nanoTime() - startNs < TimeUnit.SECONDS.toNanos(1), "called off in time");
            assertTrue(Polling.until(Duration.ofSeconds(20), () -> haveEnded(answering)), "it is killed");
        }
    }

    @Test
    void shouldWriteAProcesssFileToTheDiskWhenItIsFlushed() throws Exception {
        Path data = folder.resolve("data");
        Process job = new ProcessBuilder(
                        "sh", "-c", "exec 7>\"$1\"; echo 12345 >&7; exec sleep 60", "sh", data.toString())
                .start();
        try (FileLooker flusher = FileLooker.flusher(PROGRAMS, () -> false)) {
            assertTrue(Polling.until(Duration.ofSeconds(20), () -> Files.exists(data) && Files.size(data) == 6));
            String line = flusher.flush((int) job.pid(), "7");
            assertEquals(6, FileFacts.parse(line).orElseThrow().lengthBytes(), line);
            assertTrue(FileFacts.error(flusher.flush((int) job.pid(), "99")) > 0);
        } finally {
            job.destroyForcibly();
        }
    }

    /** Returns the answering processes. Each is a child of one that watches it. */
    private static List<ProcessHandle> children() {
        return ProcessHandle.current()
                .descendants()
                .filter(FileLookerIT::isLook)
                .filter(child -> child.parent().filter(FileLookerIT::isLook).isPresent())
                .toList();
    }

    private static boolean isLook(ProcessHandle process) {
        return process.info().command().orElse("").endsWith("ppmr-look");
    }

    /** Stops the processes that answer, and returns them. One whose watcher has ended is no descendant. */
    private static List<ProcessHandle> stop() throws Exception {
        List<ProcessHandle> answering = children();
        assertFalse(answering.isEmpty());
        for (ProcessHandle child : answering) {
            new ProcessBuilder("kill", "-STOP", "" + child.pid()).start().waitFor();
        }
        return answering;
    }

    private static boolean haveEnded(List<ProcessHandle> processes) {
        return processes.stream().noneMatch(ProcessHandle::isAlive);
    }

    @Test
    void shouldTellWhetherASocketsNameIsInUse() throws Exception {
        Path served = folder.resolve("served");
        Path left = folder.resolve("left");
        Path file = Files.writeString(folder.resolve("file"), "1");
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
                FileLooker looker = looker()) {
            server.bind(UnixDomainSocketAddress.of(served));
            try (ServerSocketChannel ended = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
                ended.bind(UnixDomainSocketAddress.of(left));
            }
            for (Path one : List.of(served, left)) {
                Files.setPosixFilePermissions(one, PosixFilePermissions.fromString("rwxrwxrwx"));
            }
            List<String> lines = looker.bound(List.of(at(served), at(left), at(file), at(folder.resolve("none"))));
            assertEquals(List.of("yes", "error 111", "error 13", "error 2"), lines);
            server.configureBlocking(false);
            assertEquals(null, server.accept(), "the server noticed the look");
        }
    }
}
