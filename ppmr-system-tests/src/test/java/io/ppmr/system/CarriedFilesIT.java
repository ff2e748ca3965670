package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A job whose own files travel with it ({@code files.copy}), by real CRIU between two nodes with disks of their own.
 * Each byte arrives and the job continues its writes, or it is refused before it is stopped. Both nodes keep their
 * services for all tests.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CarriedFilesIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final JobUser USER = new JobUser(41_378, 41_378);
    /** The number of the system call setxattr(2) on x86-64. */
    private static final int SETXATTR = 188;

    private static ScratchJob job;
    private static TestNode here;
    private static TestNode there;

    @BeforeAll
    static void startServices() throws Exception {
        job = new ScratchJob(
                "carried-files",
                USER,
                1,
                "copy_limit = \"16m\"\nreplace = true",
                "copy_limit = \"8m\"\nreplace = true");
        here = job.nodes().a();
        there = job.nodes().b();
    }

    @AfterAll
    static void end() throws Exception {
        job.close();
    }

    @AfterEach
    void clear() throws Exception {
        job.clear();
    }

    @Test
    void shouldWriteOnAtItsPlaceWhenItsFilesTravel() throws Exception {
        job.asUser(here, "mkdir -p scratch/a; echo input >scratch/a/in; chmod 640 scratch/a/in");
        job.asUser(
                here,
                "truncate -s 3G scratch/sparse; printf mid | dd of=scratch/sparse bs=1 seek=1G conv=notrunc"
                        + " 2>/dev/null");
        job.asUser(there, "mkdir -p scratch/a");
        String scratch = job.local() + "/scratch/";
        job.start(0, "scratch/a/out", "4<" + scratch + "a/in 5<" + scratch + "sparse 6>>" + scratch + "a/out");
        job.requireMoved();
        job.requireEveryLine(there);
        assertEquals("input", job.shell(there, "cat scratch/a/in"));
        String shown = "stat -c '%a %u %g %s %y' scratch/a/in scratch/sparse";
        assertEquals(job.shell(here, shown), job.shell(there, shown));
        assertEquals("mid", job.shell(there, "dd if=scratch/sparse bs=1 skip=1G count=3 2>/dev/null"));
        assertTrue(Long.parseLong(job.shell(there, "stat -c %b scratch/sparse")) < 64, "holes are filled");
        assertFalse(job.shell(here, "cat scratch/a/out").isEmpty(), "the source's file stays");
        job.requireNothingOfOurs(here);
        job.requireNothingOfOurs(there);
    }

    /** The restart is stopped while it waits for the image. The files are at their places by then. */
    @Test
    void shouldPutBackWhatItReplacedWhenItIsRolledBack() throws Exception {
        job.asUser(here, "mkdir -p scratch/a");
        job.asUser(there, "mkdir -p scratch/a; echo old >scratch/a/out; chmod 600 scratch/a/out");
        String old = job.shell(there, "stat -c '%i %a %s %y' scratch/a/out");
        job.start(0, "scratch/a/out", "");
        Process stops = there.command(List.of("sh", "-c", "until pkill -STOP -f '[c]riu.* restore'; do :; done"))
                .start();
        CompletableFuture<String> migration = job.migrateLater();
        assertTrue(stops.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS), "the restart has not begun");
        Conditions.until(LIMIT, "the file is at its place", () -> job.shell(there, "head -c 7 scratch/a/out")
                .equals("0000001"));
        String cancelled =
                job.command("cancel", "--socket", job.nodes().socket().toString(), job.noted());
        assertTrue(cancelled.startsWith("0 "), cancelled);
        there.run(LIMIT, "sh", "-c", "pkill -CONT -f '[c]riu.* restore'; true");
        String said = migration.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertFalse(said.startsWith("0 "), said);
        job.requireTurns();
        assertEquals("old", job.shell(there, "cat scratch/a/out"));
        assertEquals(old, job.shell(there, "stat -c '%i %a %s %y' scratch/a/out"));
        job.requireNothingOfOurs(there);
        job.requireMoved();
        job.requireEveryLine(there);
        job.requireNothingOfOurs(there);
    }

    /**
     * Each row has the commands here and there, as the job's user or as root. It also has the additional open files of
     * the job, and the expected message.
     */
    @Tag("soak")
    @ParameterizedTest
    @CsvSource({
        "user, true, user, rmdir scratch/a, '', No such file or directory",
        "user, true, user, chmod 500 scratch/a, '', Permission denied",
        "user, true, root, mount -t tmpfs -o ro none scratch/a, '', Read-only file system",
        "user, true, user, rmdir scratch/a; mkdir b; ln -s ../b scratch/a, '', Not a directory",
        "user, true, user, mkfifo scratch/a/out, '', a file of another type",
        "user, true, user, ln -s /none scratch/a/out, '', no regular file of the user",
        "user, true, root, echo x >scratch/a/out, '', no regular file of the user",
        "user, true, root, echo x >o; ln o scratch/a/out, '', no regular file of the user",
        "user, head -c 9m /dev/zero >scratch/a/x, user, true, 4<scratch/a/x, copy_limit is 8388608",
        "user, head -c 17m /dev/zero >scratch/a/x, user, true, 4<scratch/a/x, copy_limit allows 16777216",
        "user, head -c 4m /dev/zero >scratch/a/x, root, mount -t tmpfs -o size=1m none scratch/a; chmod 777 scratch/a,"
                + " 4<scratch/a/x, ' left'",
        "user, touch scratch/a/out; ln scratch/a/out scratch/b, user, true, '', has 2 names",
        "root, echo x >scratch/a/x; chmod 644 scratch/a/x, user, true, 4<scratch/a/x, belongs to user 0",
        "user, mkdir o; touch o/x, user, mkdir o, 4<o/x, does not allow a file there",
        "user, truncate -s 2T scratch/a/x, user, true, 4<scratch/a/x, has a length of",
    })
    void shouldRefuseAJobBeforeThePauseWhenAFileCannotTravel(
            String hereAs, String hereLine, String thereAs, String thereLine, String further, String why)
            throws Exception {
        for (TestNode node : new TestNode[] {here, there}) {
            job.asUser(node, "mkdir -p scratch/a");
        }
        run(here, hereAs, hereLine);
        run(there, thereAs, thereLine);
        String before = job.shell(there, "find . | sort");
        job.start(0, "scratch/a/out", further.replace("<", "<" + job.local() + "/"));
        String said = job.migrate();
        assertTrue(said.contains(why), said);
        assertTrue(said.contains("the job was not stopped") || said.contains(" refuses: "), said);
        assertTrue(said.contains("\n  -> "), said);
        assertFalse(said.contains("committed"), said);
        job.requireTurns();
        assertEquals(before, job.shell(there, "find . | sort"));
    }

    /** The file has an attribute of its user. Perl is part of each Debian, and setfattr is not. */
    @Tag("soak")
    @Test
    void shouldRefuseAJobBeforeThePauseWhenAFileHasExtendedAttributes() throws Exception {
        for (TestNode node : new TestNode[] {here, there}) {
            job.asUser(node, "mkdir -p scratch/a");
        }
        job.asUser(here, "echo x >scratch/a/x");
        job.shell(
                here,
                "perl -e '($f, $n, $v) = (\"scratch/a/x\", \"user.note\", \"1\");" + " syscall(" + SETXATTR
                        + ", $f, $n, $v, 1, 0) == 0 or die $!'");
        job.start(0, "scratch/a/out", "4<" + job.local() + "/scratch/a/x");
        String said = job.migrate();
        assertTrue(said.contains("it has extended attributes or an access list, which ppmr does not copy"), said);
        assertTrue(said.contains("setfattr, setfacl -b"), said);
        assertFalse(said.contains("committed"), said);
        job.requireTurns();
    }

    private static void run(TestNode node, String as, String line) throws Exception {
        if (as.equals("user")) {
            job.asUser(node, line);
        } else {
            job.shell(node, line);
        }
    }

    @Test
    void shouldRefuseAJobBeforeThePauseWhenAProcessOutsideWritesToItsFile() throws Exception {
        for (TestNode node : new TestNode[] {here, there}) {
            job.asUser(node, "mkdir -p scratch/a");
        }
        job.start(0, "scratch/a/out", "");
        job.asUser(here, "sleep 600 >>scratch/a/out </dev/null 2>/dev/null &");
        String said = job.migrate();
        assertTrue(said.contains("the job was not stopped: rank 0: PID "), said);
        assertTrue(said.contains("(sleep) has the same file open as descriptor 1, which is outside of the rank"), said);
        job.requireTurns();
    }

    /** A user continuously changes the files at the place. Only the job's own files are ever written. */
    @Test
    @Tag("soak")
    void shouldWriteNothingElsewhereWhileTheUserExchangesFoldersAndFiles() throws Exception {
        job.asUser(here, "mkdir -p scratch/a");
        job.shell(there, "mkdir -p secret; echo secret >secret/out; chmod 755 secret; chmod 666 secret/out");
        job.shell(there, "mkdir -p scratch; chmod 777 scratch");
        job.asUser(there, "mkdir -p scratch/a");
        job.start(0, "scratch/a/out", "");
        job.asUser(
                there,
                "(while :; do mv scratch/a scratch/m; ln -s ../secret scratch/a; rm scratch/a; mv scratch/m scratch/a;"
                        + " ln -s ../../secret/out scratch/a/out; rm -f scratch/a/out; mkfifo scratch/a/out;"
                        + " rm -f scratch/a/out; done) </dev/null >/dev/null 2>&1 &");
        for (int turn = 0; turn < 10; turn++) {
            String said = job.migrate();
            assertEquals("secret", job.shell(there, "cat secret/out"));
            assertEquals("out", job.shell(there, "ls -A secret"));
            if (said.startsWith("0 ")) {
                break;
            }
            job.requireTurns();
        }
        there.run(LIMIT, "sh", "-c", "pkill -KILL -f '[s]cratch/m'; true");
        assertEquals("", job.shell(there, "find . -name '.ppmr-*'"));
        assertTrue(Files.exists(job.in(there, "secret/out")));
    }
}
