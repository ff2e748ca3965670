package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Jobs that real CRIU does not move, or changes. Each is refused before it is stopped, with the process, the cause and
 * the remedy, and continues.
 */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CriuRefusalIT {
    private static final String TURNS = " open(T,'>>','turns') or die; select((select(T),$|=1)[0]);"
            + " while (1) { print T 'x'; select(undef,undef,undef,0.02) }";

    @TempDir
    private Path directory;

    /** A job in Perl, started by a shell with these words before it. */
    private static String perl(String before, String program) {
        return before + "perl -e " + quoted(program + TURNS);
    }

    private static String quoted(String text) {
        return "'" + text.replace("'", "'\\''") + "'";
    }

    private static String kind(String name) {
        Path program = Path.of(System.getProperty("ppmr.home"), "ppmr-checkpoint/target/native-test/kinds-job");
        return "setsid " + program + " " + name + " .";
    }

    static List<Arguments> refused() {
        return List.of(
                Arguments.of("flock", kind("locks"), List.of("(kinds-job) holds a lock (FLOCK WRITE) of", "/job/own")),
                Arguments.of(
                        "fcntl",
                        perl(
                                "setsid ",
                                "use Fcntl; open(L,'>','locked'); $k=pack('s s x4 q q l x4',F_WRLCK,0,0,0,0);"
                                        + " fcntl(L,F_SETLK,$k) or die;"),
                        List.of("(perl) holds a lock (POSIX WRITE) of", "/job/locked", "suspend hook")),
                Arguments.of(
                        "shm",
                        kind("sysv"),
                        List.of("(kinds-job) has System V shared memory attached (/SYSV00000000)")),
                Arguments.of(
                        "sem",
                        perl(
                                "setsid ",
                                "$s=semget(0,2,0600); semop($s,pack('s3',1,1,0)) or die;"
                                        + " $SIG{TERM}=sub { semctl($s,0,0,0); exit };"),
                        List.of("(perl) has used the System V semaphores", "unshare --ipc")),
                Arguments.of(
                        "msg",
                        perl(
                                "setsid ",
                                "$q=msgget(0,0600); msgsnd($q,pack('l! a*',1,'a'),0) or die;"
                                        + " $SIG{TERM}=sub { msgctl($q,0,0); exit };"),
                        List.of("(perl) has used the System V message queue", "unshare --ipc")),
                Arguments.of(
                        "outer session",
                        perl("", ""),
                        List.of("(perl) is in session", "another session", "setsid(1)", "--shell-job")),
                Arguments.of(
                        "orphan",
                        perl("setsid ", "if(!fork){ if(!fork){ sleep 1 while 1 } exit } wait;"),
                        List.of("(perl) belongs to session", "no longer from", "PR_SET_CHILD_SUBREAPER")));
    }

    private ServicePair pair(Checkpointer criu) throws IOException, InterruptedException {
        return new ServicePair(
                directory, ServicePair.Options.with(criu).alsoRootsJobs().staging(64 << 20));
    }

    private static void requireWords(MigrationReport report, List<String> words) {
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("refused")
    void shouldRefuseBeforeThePauseWhatCriuDoesNotMove(String name, String line, List<String> words) throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = CriuJob.start(directory, line);
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
            requireWords(report, words);
            requireWords(report, List.of("rank 0 was not stopped: PID ", "Remedy: "));
            job.requireTurns();
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveARankInAnOuterSessionWhenThatIsAllowed() throws Exception {
        Checkpointer criu = CriuJob.criu("--shell-job");
        // The session is one of this PID namespace, whatever the tests themselves are in.
        String line = perl("", "open(P,'>','pid') or die; print P $$; close P;");
        try (CriuJob job = CriuJob.start(directory, "setsid sh -c " + quoted(line + " & wait"));
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu, Integer.parseInt(Files.readString(job.file("pid"))));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
        }
    }

    /** The check for obstacles is only after the hook. */
    @Tag("soak")
    @Test
    void shouldMoveAJobThatGivesItsLockUpInItsSuspendHook() throws Exception {
        Checkpointer criu = CriuJob.criu();
        String locks = "use Fcntl \":flock\"; open(L,'>','locked'); flock(L,LOCK_EX) or die;"
                + " $SIG{USR1}=sub { flock(L,LOCK_UN); open(F,'>','free') };";
        try (CriuJob job = CriuJob.start(directory, perl("setsid ", locks));
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            String line = "kill -USR1 $PID; until [ -e '" + job.file("free") + "' ]; do sleep 0.02; done";
            MigrationReport report = job.migrateSuspended(pair, criu, line);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
        }
    }

    @Test
    void shouldRefuseAJobThatHasItsLockAfterItsSuspendHook() throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = CriuJob.start(directory, kind("locks"));
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrateSuspended(pair, criu, "true");
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            requireWords(report, List.of("rank 0 was not stopped: PID ", "holds a lock (FLOCK WRITE)"));
            job.requireTurns();
        }
    }

    @Test
    void shouldMoveACopyOnWhenItWasMovedBefore() throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = CriuJob.start(directory, perl("setsid ", "if(!fork){ setpgrp(0,0); sleep 1 while 1 }"));
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport first = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, first.outcome(), first.reason());
            job.requireTurns();
            int copy = first.ranks().get(0).pids().get(0);
            MigrationReport second = job.migrate(pair, criu, copy);
            assertEquals(Outcome.COMMITTED, second.outcome(), second.reason());
            job.requireTurns();
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveSystemVMemoryWhenTheJobHasAnIpcNamespaceOfItsOwn() throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = CriuJob.start(directory, "unshare --ipc " + kind("sysv"));
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
        }
    }

    /** The restart would wait for the lock, which the held original has. */
    @Tag("soak")
    @Test
    void shouldRefuseALockBeforeThePauseWhateverTheArgumentsAre() throws Exception {
        Checkpointer criu = CriuJob.criu("--file-locks");
        try (CriuJob job = CriuJob.start(directory, kind("locks"));
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
            requireWords(report, List.of("rank 0 was not stopped: PID ", "holds a lock (FLOCK WRITE)", "suspend hook"));
            job.requireTurns();
        }
    }
}
