package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests real processes with the mark of a restart whose service has died. */
@Timeout(60)
class RestartMarkIT {
    private static final int ANOTHER_UID = 41_235;
    private static final int ASKERS = 16;
    private static final int SECONDS = 20;

    private JobFixture fixture;
    private Path attempt;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        attempt = Files.createDirectory(fixture.base.resolve("attempt"));
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private RestartMark noted(int rank) throws IOException {
        RestartMark mark = RestartMark.draw(JobFixture.USER);
        mark.note(attempt.resolve("rank-" + rank));
        return mark;
    }

    /** Starts a process with a mark, in its own session, and waits until it runs its final program. */
    private Process start(int uid, RestartMark mark) throws Exception {
        List<String> words = List.of(
                "setsid",
                fixture.programs.launch().toString(),
                "--uid",
                "" + uid,
                "--gid",
                "" + uid,
                "--env",
                mark.variable(),
                "--",
                "/bin/sleep",
                "1000");
        Process process = new ProcessBuilder(uid == 0 ? rootsOwn(mark) : words).start();
        Path comm = Path.of("/proc/" + process.pid() + "/comm");
        assertTrue(
                Polling.until(JobFixture.LIMIT, () -> {
                    try {
                        return Files.readString(comm).equals("sleep\n");
                    } catch (IOException gone) {
                        return false;
                    }
                }),
                "it has not started");
        return process;
    }

    private static List<String> rootsOwn(RestartMark mark) {
        return List.of("setsid", "env", mark.variable(), "/bin/sleep", "1000");
    }

    private static void end(Process... processes) {
        for (Process process : processes) {
            process.destroyForcibly();
        }
    }

    /** A mark is readable in the command line that sets it, so any user can copy it. */
    @Test
    void shouldEndWhatIsOfRootOrOfTheRestartsUserAloneWhenAnotherUserHasTheSameMark() throws Exception {
        RestartMark mark = noted(0);
        Process copy = start(JobFixture.USER.uid(), mark);
        Process tool = start(0, mark);
        Process others = start(ANOTHER_UID, mark);
        Process unmarked = start(JobFixture.USER.uid(), RestartMark.draw(JobFixture.USER));
        try {
            OrphanedCommand.endMarked(attempt);
            assertTrue(copy.waitFor(SECONDS, TimeUnit.SECONDS), "the restart's user's");
            assertTrue(tool.waitFor(SECONDS, TimeUnit.SECONDS), "root's");
            assertTrue(others.isAlive(), "another user's");
            assertTrue(unmarked.isAlive(), "one of another restart");
        } finally {
            end(copy, tool, others, unmarked);
        }
    }

    /** A mark must not let a user end another user's restart, or root's processes of another restart. */
    @Test
    void shouldEndNothingWhenTheNoteIsOfAnotherUser() throws Exception {
        new RestartMark("0123456789abcdef0123456789abcdef", ANOTHER_UID).note(attempt.resolve("rank-0"));
        Process copy = start(JobFixture.USER.uid(), new RestartMark("0123456789abcdef0123456789abcdef", ANOTHER_UID));
        try {
            OrphanedCommand.endMarked(attempt);
            assertTrue(copy.isAlive());
        } finally {
            end(copy);
        }
    }

    @Test
    void shouldFindTheProcessesOfEachMarkWhenManyThreadsAskAtOnce() throws Exception {
        RestartMark first = noted(0);
        RestartMark second = noted(1);
        Process one = start(JobFixture.USER.uid(), first);
        Process two = start(JobFixture.USER.uid(), second);
        try {
            List<CompletableFuture<List<ProcessIdentity>>> answers = new ArrayList<>();
            for (int i = 0; i < ASKERS; i++) {
                RestartMark mark = i % 2 == 0 ? first : second;
                answers.add(CompletableFuture.supplyAsync(() -> fixture.table.marked(mark)));
            }
            for (int i = 0; i < ASKERS; i++) {
                int pid = (int) (i % 2 == 0 ? one : two).pid();
                assertEquals(List.of(fixture.table.of(pid)), answers.get(i).get(SECONDS, TimeUnit.SECONDS));
            }
        } finally {
            end(one, two);
        }
    }

    @Test
    void shouldReadWhatItHasNotedAndRefuseAnythingElse() throws Exception {
        List<RestartMark> marks = List.of(noted(0), noted(1));
        assertEquals(
                List.copyOf(marks).stream().map(RestartMark::token).sorted().toList(),
                RestartMark.noted(attempt).stream()
                        .map(RestartMark::token)
                        .sorted()
                        .toList());
        assertTrue(OrphanedCommand.isNoted(attempt), "an attempt whose restarts were only noted is one");
        OrphanedCommand.forget(attempt);
        assertEquals(List.of(), RestartMark.noted(attempt));
        assertFalse(OrphanedCommand.isNoted(attempt));
        Files.writeString(attempt.resolve("rank-0.mark"), "41234 not a token\n");
        String message = assertThrows(IOException.class, () -> RestartMark.noted(attempt))
                .getMessage();
        assertTrue(message.contains("rank-0.mark") && message.contains("Remedy: "), message);
    }
}
