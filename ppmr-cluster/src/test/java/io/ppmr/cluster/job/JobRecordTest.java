package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobRecord.JobNumbers;
import io.ppmr.cluster.job.JobRecord.LastRound;
import io.ppmr.cluster.job.JobRecord.OpenMove;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.daemon.jobs.JobName;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JobRecordTest {
    private static final JobName JOB = new JobName(1000, "ring");

    private static JobRecord longest() {
        String host = "n".repeat(64);
        OpenMove move = new OpenMove("move-ffffffff", host);
        JobNumbers numbers = new JobNumbers(
                Integer.MAX_VALUE,
                Integer.MAX_VALUE,
                Long.MAX_VALUE / 1000,
                Long.MAX_VALUE / 1000,
                Long.MAX_VALUE / 1000);
        return new JobRecord(
                "ffffffff",
                new JobName(-1, "j".repeat(32)),
                JobRecord.MOST_MEMBERS,
                JobPhase.RESTARTING,
                numbers,
                false,
                "999999-999999999-ffffffff",
                Long.MAX_VALUE,
                new LastRound(Long.MAX_VALUE / 1000, true, RoundOutcome.CHECKPOINTED, "\"reason\" ".repeat(100)),
                Collections.nCopies(JobRules.MOST_MOVES, move),
                true,
                new JobRecord.JobSchedule("8640000s", "0123456789abcdef", false, false));
    }

    @Test
    void shouldFitARequestWhenAllOfItIsAsLongAsItCanBe() {
        byte[] bytes = longest().encode();
        assertTrue(bytes.length <= JobRecord.MOST_BYTES, "it has " + bytes.length + " bytes");
        assertEquals(longest().numbers(), JobRecord.decode(bytes).orElseThrow().numbers());
    }

    @Test
    void shouldBeReadAsItWasWritten() {
        JobRecord record = JobRecord.of("0a0b0c0d", JOB, 3, new JobRecord.JobSchedule("auto", "0a1b", false, false))
                .in(JobPhase.CHECKPOINT, JobNumbers.FIRST.nextRound(), true, "1-1-00000000")
                .holding(60)
                .moving(List.of(new OpenMove("move-1", "n1")));
        assertEquals(Optional.of(record), JobRecord.decode(record.encode()));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "{}",
                "[]",
                "null",
                "{\"id\":\"a\"}",
                "{\"id\":\"a\",\"name\":{\"uid\":1,\"name\":\"x\"},\"members\":0,\"phase\":\"RUNNING\"}"
            })
    void shouldBeUnreadableWhenItHasAnotherForm(String text) {
        assertEquals(Optional.empty(), JobRecord.decode(text.getBytes(StandardCharsets.UTF_8)));
    }

    @Property
    void shouldNeverThrowWhateverTheBytesAre(@ForAll byte[] bytes) {
        assertEquals(Optional.empty(), JobRecord.decode(bytes));
    }

    @Property
    void shouldNeverThrowWhateverAQuestionIs(@ForAll String text) {
        JobQuestion.KINDS.keySet().forEach(kind -> JobQuestion.parse(kind, text));
        assertEquals(Optional.empty(), JobQuestion.parse("no kind", text));
    }

    @ParameterizedTest
    @ValueSource(strings = {"../x", "", "a/b", "1-1-0000000/", "..", "1-1-00000000/../.."})
    void shouldBeNoNameOfADirectoryWhenItLeadsElsewhere(String name) {
        assertEquals(false, JobKey.isSet(name));
        assertEquals(false, name.contains("/") && JobKey.isName(name));
        assertEquals(false, JobKey.isName(".." + name));
    }

    @Test
    void shouldBeTheQuestionThatItWas() {
        JobQuestion question =
                new JobQuestion.OrderRestart(JOB, "1-1-00000000", List.of("n1", "n2"), "n3", List.of("n4"), true);
        assertEquals(Optional.of(question), JobQuestion.parse(question.kind(), question.text()));
    }
}
