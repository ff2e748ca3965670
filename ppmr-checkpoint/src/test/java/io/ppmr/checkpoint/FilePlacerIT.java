package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.FilePlacement.PlacedFile;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tests that a process of the job's user places files, whatever others do there at that time. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FilePlacerIT {
    private static final Duration LIMIT = Duration.ofSeconds(20);
    private static final JobUser USER = new JobUser(41_379, 41_379);
    private static final NativePrograms PROGRAMS = new NativePrograms(Path.of(System.getProperty("ppmr.native.dir")));

    @TempDir
    private Path root;

    private Path folder;
    private Path elsewhere;

    @BeforeEach
    void makeFolders() throws Exception {
        Files.setPosixFilePermissions(root, PosixFilePermissions.fromString("rwxr-xr-x"));
        folder = Files.createDirectory(root.resolve("folder"));
        elsewhere = Files.createDirectory(root.resolve("elsewhere"));
        for (Path one : List.of(root, folder, elsewhere)) {
            Files.setAttribute(one, "unix:uid", USER.uid());
        }
    }

    private FilePlacement placement(String... names) {
        List<PlacedFile> entries = Stream.of(names)
                .map(name ->
                        new PlacedFile(folder.resolve(name.replace("!", "")).toString(), name.endsWith("!"), ""))
                .toList();
        return new FilePlacement("m-1.1.0", USER, entries);
    }

    private static FilePlacer start(FilePlacement placement) throws CheckpointException {
        return FilePlacer.start(PROGRAMS, placement, () -> false);
    }

    /** Returns the stream of files with these contents. */
    private static FilePlacer.Content content(String... texts) {
        ByteBuffer stream = ByteBuffer.allocate(1 << 16);
        for (String text : texts) {
            byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
            stream.put(("file 640 " + USER.gid() + " " + bytes.length + " 1000000000.5\n")
                    .getBytes(StandardCharsets.US_ASCII));
            stream.putLong(0).putInt(bytes.length).put(bytes);
            stream.putLong(0).putInt(0);
        }
        stream.flip();
        return buffer -> {
            int bytes = Math.min(buffer.length, stream.remaining());
            stream.get(buffer, 0, bytes);
            return bytes;
        };
    }

    private void asUser(String line) throws IOException, InterruptedException {
        Command.CommandResult result = Command.of(List.of(
                        "setpriv",
                        "--reuid",
                        "" + USER.uid(),
                        "--regid",
                        "" + USER.gid(),
                        "--clear-groups",
                        "sh",
                        "-c",
                        "cd " + root + " && " + line))
                .run(LIMIT);
        assertEquals(0, result.exitCode(), result.describe());
    }

    private static List<String> names(Path directory) throws IOException {
        try (Stream<Path> found = Files.list(directory)) {
            return found.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void shouldPutFilesAtTheirPlacesAndBackWhatWasThere() throws Exception {
        asUser("echo old >folder/b");
        FilePlacement written;
        try (FilePlacer placer = start(placement("a", "b!"))) {
            written = placer.write(content("one", "two"), LIMIT);
            assertEquals("old\n", Files.readString(folder.resolve("b")));
            placer.place();
            placer.verify();
        }
        assertEquals("one", Files.readString(folder.resolve("a")));
        assertEquals("two", Files.readString(folder.resolve("b")));
        assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve("a"))));
        assertEquals(USER.uid(), Files.getAttribute(folder.resolve("a"), "unix:uid"));
        assertEquals(
                1_000_000_000L, Files.getLastModifiedTime(folder.resolve("a")).to(TimeUnit.SECONDS));
        try (FilePlacer later = start(written)) {
            later.undo();
            later.undo();
        }
        assertEquals(List.of("b"), names(folder));
        assertEquals("old\n", Files.readString(folder.resolve("b")));
    }

    @Test
    void shouldRemoveWhatWasReplacedWhenItIsFinal() throws Exception {
        asUser("echo old >folder/b");
        try (FilePlacer placer = start(placement("b!"))) {
            placer.write(content("two"), LIMIT);
            placer.place();
            assertEquals(List.of(".ppmr-m-1.1.0.0", "b"), names(folder));
            placer.finish();
        }
        assertEquals(List.of("b"), names(folder));
        assertEquals("two", Files.readString(folder.resolve("b")));
    }

    /** Each row has the user's change between write and placing. No other file is written, and none is left. */
    @ParameterizedTest
    @CsvSource({
        "'mv folder moved; ln -s elsewhere folder'",
        "'mv folder moved; mkdir folder'",
        "'ln -s ../elsewhere/secret folder/a'",
        "'ln -s nowhere folder/a'",
        "'mkfifo folder/a'",
        "'mkdir folder/a'",
        "'echo other >folder/a'",
    })
    void shouldFailAndLeaveNothingWhenTheUserPutsSomethingElseThere(String attack) throws Exception {
        asUser("echo secret >elsewhere/secret");
        for (String name : List.of("a", "a!")) {
            if (name.endsWith("!") && attack.contains("echo other")) {
                continue;
            }
            try (FilePlacer placer = start(placement(name))) {
                placer.write(content("one"), LIMIT);
                asUser(attack);
                CheckpointException refused = assertThrows(CheckpointException.class, placer::place);
                assertTrue(refused.getMessage().contains("cannot be placed on this node"), refused.getMessage());
                placer.undo();
            }
            assertEquals("secret\n", Files.readString(elsewhere.resolve("secret")));
            assertEquals(List.of("secret"), names(elsewhere));
            Path moved = root.resolve("moved");
            assertTrue(names(Files.exists(moved) ? moved : folder).stream().noneMatch(one -> one.startsWith(".ppmr")));
            asUser("rm -rf moved folder; mkdir folder");
        }
    }

    /** A file of another user is never replaced, under whatever name it is found. */
    @Test
    void shouldNotReplaceAFileOfAnotherUser() throws Exception {
        Path foreign = Files.writeString(root.resolve("foreign"), "root's");
        Files.createLink(folder.resolve("a"), foreign);
        try (FilePlacer placer = start(placement("a!"))) {
            placer.write(content("one"), LIMIT);
            assertThrows(CheckpointException.class, placer::place);
        }
        assertEquals("root's", Files.readString(folder.resolve("a")));
        assertEquals(List.of("a"), names(folder));
    }

    @ParameterizedTest
    @CsvSource({"../elsewhere/a", "./a", "/a", "link/a"})
    void shouldWriteNothingBelowAFolderThatIsReachedByALinkOrByDots(String name) throws Exception {
        asUser("ln -s ../elsewhere folder/link");
        FilePlacement leading =
                new FilePlacement("m-1.1.0", USER, List.of(new PlacedFile(folder + "/" + name, true, "")));
        try (FilePlacer placer = start(leading)) {
            assertThrows(CheckpointException.class, () -> placer.write(content("one"), LIMIT));
        }
        assertEquals(List.of("link"), names(folder));
        assertEquals(List.of(), names(elsewhere));
    }

    /** The client died between the two steps, or in the first one. */
    @ParameterizedTest
    @CsvSource({"true", "false"})
    void shouldLeaveNothingWhenItsInputEndsBeforeTheFilesAreAtTheirPlaces(boolean whole) throws Exception {
        Path notes = Files.createFile(root.resolve("answers"));
        Process placer = new ProcessBuilder(
                        PROGRAMS.launch().toString(),
                        "--uid",
                        "" + USER.uid(),
                        "--gid",
                        "" + USER.gid(),
                        "--",
                        PROGRAMS.place().toString(),
                        Long.toString(ProcessHandle.current().pid()))
                .redirectOutput(notes.toFile())
                .start();
        String head = "e.tmp\0" + folder + "/a\0" + "0\0\0p" + "file 640 " + USER.gid() + " 3 1.0\n";
        placer.getOutputStream().write(head.getBytes(StandardCharsets.US_ASCII));
        ByteBuffer piece = ByteBuffer.allocate(27).putLong(0).putInt(3).put("one".getBytes(StandardCharsets.US_ASCII));
        placer.getOutputStream().write(piece.putLong(0).putInt(0).array(), 0, whole ? 27 : 15);
        placer.getOutputStream().close();
        assertTrue(placer.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(whole, Files.readString(notes).startsWith("written "));
        assertEquals(List.of(), names(folder));
    }

    @Test
    void shouldTakeAwayWhatAProcessBeforeHasWrittenWhoseAnswerWasNeverSeen() throws Exception {
        asUser("echo part >folder/.ppmr-m-1.1.0.0");
        try (FilePlacer placer = start(placement("a"))) {
            placer.undo();
        }
        assertEquals(List.of(), names(folder));
    }

    /** The job has changed it. Its file stays, whatever is undone later. */
    @Test
    void shouldTakeNoFileAwayThatWasWrittenToSince() throws Exception {
        FilePlacement written;
        try (FilePlacer placer = start(placement("a"))) {
            written = placer.write(content("one"), LIMIT);
            placer.place();
        }
        asUser("echo more >>folder/a");
        try (FilePlacer later = start(written)) {
            assertThrows(CheckpointException.class, later::undo);
        }
        assertEquals("onemore\n", Files.readString(folder.resolve("a")));
    }

    /** Another filesystem is mounted there, or none yet. This must not count as undone. */
    @Test
    void shouldUndoNothingInAnotherFolderOfThatName() throws Exception {
        FilePlacement written;
        try (FilePlacer placer = start(placement("a"))) {
            written = placer.write(content("one"), LIMIT);
            placer.place();
        }
        asUser("mv folder moved; mkdir folder");
        try (FilePlacer later = start(written)) {
            assertThrows(CheckpointException.class, later::undo);
        }
        asUser("rmdir folder");
        try (FilePlacer later = start(written)) {
            assertThrows(CheckpointException.class, later::undo);
        }
        asUser("mv moved folder");
        try (FilePlacer later = start(written)) {
            later.undo();
        }
        assertEquals(List.of(), names(folder));
    }

    /** Another file of the user has the name by now. Both that file and the replaced one stay. */
    @Test
    void shouldKeepWhatTheUserHasPutThereSince() throws Exception {
        asUser("echo old >folder/b");
        try (FilePlacer placer = start(placement("b!"))) {
            placer.write(content("two"), LIMIT);
            placer.place();
            asUser("rm folder/b; echo newer >folder/b");
            assertThrows(CheckpointException.class, placer::verify);
            assertThrows(CheckpointException.class, placer::undo);
        }
        assertEquals("newer\n", Files.readString(folder.resolve("b")));
        assertTrue(Files.exists(folder.resolve(".ppmr-m-1.1.0.0"), LinkOption.NOFOLLOW_LINKS));
    }

    private void bind(String name) throws Exception {
        asUser("perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(q(folder/" + name
                + "))) or die'");
    }

    private Object number(String name) throws IOException {
        return Files.getAttribute(folder.resolve(name), "unix:ino", LinkOption.NOFOLLOW_LINKS);
    }

    /** Each row has what happens to the name, and the names after that. */
    @ParameterizedTest
    @CsvSource({"true, true", "rm folder/s, true", "'rm folder/s; BIND', true", "'rm folder/s; echo 1 >folder/s', false"
    })
    void shouldGiveASocketItsNameAgain(String change, boolean back) throws Exception {
        bind("s");
        Object before = number("s");
        KeptNames names = new KeptNames(root, "m-1", PROGRAMS);
        names.keep(1, 0, USER, List.of(folder + "/s"));
        assertEquals(List.of(".ppmr-m-1.1.0.0", "s"), names(folder));
        asUser(change.replace("; BIND", ""));
        if (change.endsWith("BIND")) {
            bind("s");
        }
        new KeptNames(root, "m-1", PROGRAMS).bringBack();
        assertEquals(back, before.equals(number("s")));
        assertEquals(back ? List.of("s") : List.of(".ppmr-m-1.1.0.0", "s"), names(folder));
        assertEquals(!back, names(root).contains("names-m-1.1.0"));
    }

    @Test
    void shouldRemoveTheSecondNamesOfThatMigrationAlone() throws Exception {
        bind("s");
        bind("t");
        KeptNames names = new KeptNames(root, "m-1", PROGRAMS);
        names.keep(1, 0, USER, List.of(folder + "/s"));
        names.keep(2, 0, USER, List.of(folder + "/s"));
        names.keep(1, 1, USER, List.of(folder + "/t"));
        new KeptNames(root, "m-11", PROGRAMS).drop();
        assertEquals(List.of(".ppmr-m-1.1.1.0", ".ppmr-m-1.2.0.0", "s", "t"), names(folder));
        names.drop();
        assertEquals(List.of("s", "t"), names(folder));
        assertEquals(List.of("elsewhere", "folder"), names(root));
    }

    /** Each row has the user's change before the names are kept. */
    @ParameterizedTest
    @CsvSource({
        "rm folder/s",
        "'rm folder/s; ln -s ../elsewhere/secret folder/s'",
        "'rm folder/s; ln elsewhere/secret folder/s'",
        "'mv folder moved; ln -s elsewhere folder'",
        "'ln elsewhere/secret folder/.ppmr-m-1.1.0.0'",
    })
    void shouldKeepNoNameButThatOfTheUsersSocket(String attack) throws Exception {
        bind("s");
        asUser("echo secret >elsewhere/secret; " + attack);
        List<String> before = names(folder);
        KeptNames names = new KeptNames(root, "m-1", PROGRAMS);
        assertThrows(CheckpointException.class, () -> names.keep(1, 0, USER, List.of(folder + "/s")));
        names.bringBack();
        names.drop();
        assertEquals(before, names(folder));
        assertEquals("secret\n", Files.readString(elsewhere.resolve("secret")));
    }
}
