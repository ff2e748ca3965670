package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Tests the owners of commands' directories, and that an ordinary user gains nothing by exchanging names while root
 * removes.
 */
@Timeout(value = 300, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WorkDirectoriesIT {
    private static final int PAIRS = 20;
    private static final int ROUNDS = 5;
    private static final int MANY_ROUNDS = 50;
    private static final int DEPTH = 5000;
    private static final int ROOT = 0;

    private JobFixture fixture;
    private Path canary;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        canary = Files.createDirectory(fixture.base.resolve("canary"));
        Files.createDirectory(canary.resolve("within"));
        Files.writeString(canary.resolve("file"), "root's");
        Files.writeString(canary.resolve("within/file"), "root's");
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private void requireCanary() throws IOException {
        for (String name : List.of("file", "within/file")) {
            assertEquals("root's", Files.readString(canary.resolve(name)));
            assertEquals(ROOT, Files.getAttribute(canary.resolve(name), "unix:uid"));
        }
        assertEquals(ROOT, Files.getAttribute(canary, "unix:uid"));
    }

    private static String mode(Path path) throws IOException {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(path, LinkOption.NOFOLLOW_LINKS));
    }

    private static int uid(Path path) throws IOException {
        return (int) Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS);
    }

    @Test
    void shouldGiveTheUserNothingButTheScratchFolder() throws Exception {
        Path work = WorkDirectories.create(fixture.work("a"), 3);
        Path own = WorkDirectories.own(work);
        Path scratch = WorkDirectories.scratch(work, JobFixture.USER);
        for (Path passage : List.of(fixture.work("a"), work)) {
            assertEquals("rwx--x--x", mode(passage));
            assertEquals(ROOT, uid(passage));
        }
        assertEquals("rwx------", mode(own));
        assertEquals(ROOT, uid(own));
        assertEquals("rwx------", mode(scratch));
        assertEquals(JobFixture.USER.uid(), uid(scratch));
        // A second call returns the same folder.
        assertEquals(own, WorkDirectories.own(work));
        assertEquals(scratch, WorkDirectories.scratch(work, JobFixture.USER));
        assertEquals(ROOT, uid(own));
        fixture.asUser("touch", scratch.resolve("mine").toString());
        for (Path refused : List.of(
                work.resolve("new"), own.resolve("new"), fixture.work("a").resolve("new"))) {
            assertThrows(AssertionError.class, () -> fixture.asUser("touch", refused.toString()));
            assertFalse(Files.exists(refused), refused.toString());
        }
    }

    @Test
    void shouldRefuseAWorkDirectoryWhenAUserCanChangeANameInItsPath() throws Exception {
        Path good = fixture.base.resolve("made/here");
        WorkDirectories.prepare(good);
        WorkDirectories.prepare(good);
        Path hers = fixture.userDirectory("hers");
        assertRefused(hers, "belongs to user " + JobFixture.USER.uid());
        assertRefused(hers.resolve("below"), hers + " belongs to user");
        Path link = Files.createSymbolicLink(fixture.base.resolve("link"), hers);
        assertRefused(link.resolve("below"), hers + " belongs to user");
        Path open = Files.createDirectory(fixture.base.resolve("open"));
        Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"));
        assertRefused(open, "can be written by others");
        Files.setAttribute(open, "unix:mode", 01777);
        WorkDirectories.prepare(open.resolve("below"));
    }

    private static void assertRefused(Path work, String words) {
        String output = assertThrows(IOException.class, () -> WorkDirectories.prepare(work))
                .getMessage();
        assertTrue(output.contains(words) && output.contains("Remedy"), output);
    }

    @Test
    void shouldRemoveNothingElseWhenFoldersAreExchangedForLinksAndFifosMeanwhile() throws Exception {
        removeWhileFoldersAreExchanged(ROUNDS);
    }

    /** The attack succeeds at one moment only. */
    @Tag("soak")
    @Test
    void shouldRemoveNothingElseInManyRoundsWhenFoldersAreExchangedForLinksAndFifosMeanwhile() throws Exception {
        removeWhileFoldersAreExchanged(MANY_ROUNDS);
    }

    private void removeWhileFoldersAreExchanged(int rounds) throws Exception {
        Path work = fixture.work("raced");
        Path inner = work.resolve("rank-0/scratch/inner");
        fixture.raceAsUser("exchange", work.resolve("rank-0/scratch").toString(), "" + PAIRS);
        fixture.raceAsUser("exchange", inner.toString(), "" + PAIRS);
        for (int round = 0; round < rounds; round++) {
            Path scratch = WorkDirectories.scratch(WorkDirectories.create(work, 0), JobFixture.USER);
            fixture.asUser(
                    "/bin/sh",
                    "-c",
                    "for d in \"$1\" \"$1/inner\"; do mkdir -p \"$d\"; i=0; while [ $i -lt $3 ]; do"
                            + " mkdir -p \"$d/folder-$i/within\"; echo mine > \"$d/folder-$i/file\";"
                            + " echo mine > \"$d/folder-$i/within/file\";"
                            + " if [ $((i % 4)) = 3 ]; then mkfifo \"$d/other-$i\";"
                            + " else ln -s \"$2\" \"$d/other-$i\"; fi;"
                            + " i=$((i + 1)); done; done 2> /dev/null; true",
                    "tree",
                    scratch.toString(),
                    canary.toString(),
                    "" + PAIRS);
            WorkDirectories.remove(work);
            assertFalse(Files.exists(work, LinkOption.NOFOLLOW_LINKS));
            requireCanary();
        }
    }

    @Test
    void shouldComeToAnEndWhenTheUserGoesOnMakingFilesInTheTree() throws Exception {
        Path work = fixture.work("filled");
        Path scratch = WorkDirectories.scratch(WorkDirectories.create(work, 0), JobFixture.USER);
        Path deep = scratch.resolve("a/b/c");
        fixture.asUser("mkdir", "-p", deep.toString());
        fixture.raceAsUser("fill", deep.toString());
        fixture.raceAsUser("fill", scratch.toString());
        WorkDirectories.remove(work);
        assertFalse(Files.exists(work));
    }

    @Test
    void shouldRemoveATreeWhenItIsDeeperThanPathsAndDescriptorsReach() throws Exception {
        Path work = fixture.work("deep");
        Path scratch = WorkDirectories.scratch(WorkDirectories.create(work, 0), JobFixture.USER);
        fixture.asUser(fixture.bin.resolve("path-racer").toString(), "deep", scratch.toString(), "" + DEPTH);
        WorkDirectories.remove(work);
        assertFalse(Files.exists(work));
    }

    @Test
    void shouldRemoveTheLinkAloneWhenTheTreeIsOne() throws Exception {
        Path link = Files.createSymbolicLink(fixture.base.resolve("link"), canary);
        WorkDirectories.remove(link);
        assertFalse(Files.exists(link, LinkOption.NOFOLLOW_LINKS));
        requireCanary();
        WorkDirectories.remove(fixture.base.resolve("nothing"));
        WorkDirectories.remove(fixture.base.resolve("nothing/below"));
        Path file = Files.createFile(fixture.base.resolve("file"));
        WorkDirectories.remove(file);
        assertFalse(Files.exists(file));
    }

    @Test
    void shouldNotQuoteAWholeOutputWhenACommandHasMadeItHuge() throws Exception {
        SiteCommand hook = new SiteCommand(
                "suspend",
                List.of("/bin/sh", "-c", "truncate -s 2G /proc/self/fd/1; seq 100000; echo last words; exit 3"),
                Optional.of(JobFixture.USER),
                JobFixture.LIMIT);
        // The output is root's file. The user cannot open it again, and its size does not force a complete read.
        String output = assertThrows(
                        CheckpointException.class, () -> hook.run(Map.of(), fixture.work("hook"), fixture.programs))
                .getMessage();
        assertTrue(output.contains("exit status 3") && output.contains("last words"), output);
        SiteCommand holed = new SiteCommand(
                "suspend",
                List.of("/bin/sh", "-c", "dd bs=1 count=0 seek=2G 2> /dev/null; echo beyond >&2; exit 4"),
                Optional.of(JobFixture.USER),
                JobFixture.LIMIT);
        output = assertThrows(
                        CheckpointException.class, () -> holed.run(Map.of(), fixture.work("hook"), fixture.programs))
                .getMessage();
        assertTrue(output.contains("exit status 4") && output.contains("beyond"), output);
    }

    @Test
    void shouldQuoteTheReasonWithoutTheHarmlessLineBeforeIt() throws Exception {
        String harmless = "Error (criu/util.c:1): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted";
        SiteCommand tool = new SiteCommand(
                "dump",
                List.of("/bin/sh", "-c", "echo \"$0\"; echo 'Error (criu/mount.c:2): the reason'; exit 1", harmless),
                Optional.empty(),
                JobFixture.LIMIT);
        String output = assertThrows(
                        CheckpointException.class, () -> tool.run(Map.of(), fixture.work("tool"), fixture.programs))
                .getMessage();
        assertTrue(output.endsWith("its output: Error (criu/mount.c:2): the reason"), output);
    }

    @Test
    void shouldRunAHookInTheUsersScratchFolderWithItsOutputInRoots() throws Exception {
        Path work = fixture.work("hook");
        new SiteCommand(
                        "resume",
                        List.of("/bin/sh", "-c", "pwd > here; echo said"),
                        Optional.of(JobFixture.USER),
                        JobFixture.LIMIT)
                .run(Map.of(), work, fixture.programs);
        Path scratch = work.resolve("scratch");
        assertEquals(scratch + "\n", Files.readString(scratch.resolve("here")));
        assertEquals("said\n", Files.readString(work.resolve("own/resume.out")));
        assertEquals(ROOT, uid(work.resolve("own/resume.out")));
        try (Stream<Path> all = Files.list(work)) {
            assertEquals(2, all.count());
        }
    }
}
