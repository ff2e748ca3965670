package io.ppmr.system;

import static io.ppmr.system.KillablePair.SOURCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.TransactionRecord;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A source is killed while a hook runs: the one that is started again runs no other hook beside it. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class HookDeathIT {
    @TempDir
    private Path directory;

    private Path hooks;
    private Path events;

    @BeforeEach
    void makeHooks() throws Exception {
        hooks = Files.createDirectory(directory.resolve("hooks"));
        events = Files.createFile(hooks.resolve("events"));
        Files.setAttribute(events, "unix:uid", ReplayJob.USER.uid());
        hook("resume", "echo resume");
    }

    private void hook(String name, String body) throws Exception {
        Files.writeString(hooks.resolve(name), "exec >>" + events + " 2>&1\n" + body + "\n");
    }

    private KillablePair pair(String deadline) throws Exception {
        return new KillablePair(Files.createDirectory(directory.resolve("nodes")), "", """
                suspend = ["sh", "%1$s/suspend"]
                resume = ["sh", "%1$s/resume"]
                hook_deadline = "%2$s"
                """.formatted(hooks, deadline));
    }

    private List<String> events() throws Exception {
        return Files.readAllLines(events);
    }

    /** The source is killed in the middle of its suspend hook, and is started again. */
    private String killedInSuspend(KillablePair pair, LedgerJob job) throws Exception {
        String id = pair.migrate();
        Conditions.until("suspend runs", () -> events().contains("suspend begins"));
        Path note = directory.resolve("nodes/source-work/hooks-" + id + "/started");
        Conditions.until("the hook is noted", () -> Files.exists(note) && Files.size(note) > 0);
        pair.service(SOURCE).kill();
        pair.start(SOURCE);
        Conditions.until(
                "the source waits for the hook",
                () -> pair.service(SOURCE).log().contains("a hook of the previous service run still runs"));
        job.runsHere();
        return id;
    }

    @Tag("soak")
    @Test
    void shouldResumeAfterSuspendHasEndedWhenItsServiceWasKilled() throws Exception {
        Path go = hooks.resolve("go");
        hook("suspend", "echo suspend begins; until [ -e " + go + " ]; do sleep 0.05; done; echo suspend ends");
        try (KillablePair pair = pair("60s");
                LedgerJob job = pair.job()) {
            String id = killedInSuspend(pair, job);
            assertEquals(List.of("suspend begins"), events(), "nothing else is run beside it");
            Files.createFile(go);
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            assertEquals(List.of("suspend begins", "suspend ends", "resume"), events());
            job.runsHere();
        }
    }

    @Tag("soak")
    @Test
    void shouldEndSuspendBeforeItResumesWhenThatDoesNotEndInTime() throws Exception {
        hook("suspend", "echo suspend begins; trap '' TERM; sleep 300 & echo $! $$ >" + hooks + "/pids; wait; wait");
        Files.setAttribute(Files.createFile(hooks.resolve("pids")), "unix:uid", ReplayJob.USER.uid());
        try (KillablePair pair = pair("15s");
                LedgerJob job = pair.job()) {
            String id = killedInSuspend(pair, job);
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            assertEquals(List.of("suspend begins", "resume"), events());
            for (String pid : Files.readString(hooks.resolve("pids")).strip().split(" ", -1)) {
                assertTrue(
                        new ProcessTable().find(Integer.parseInt(pid)).isEmpty(),
                        "process " + pid + " of suspend still runs");
            }
            job.runsHere();
        }
    }
}
