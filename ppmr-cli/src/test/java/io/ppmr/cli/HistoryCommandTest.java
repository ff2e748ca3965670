package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class HistoryCommandTest {
    @TempDir
    Path folder;

    private Path path;
    private int exit;

    @BeforeEach
    void writeJournal() throws IOException {
        path = folder.resolve("journal");
        try (MappedJournal journal = MappedJournal.open(path)) {
            journal.append(new TransactionRecord.Requested("m1", 0, "uid 1000", "lu.C", "all to spare1:7"));
            journal.appendSynced(new TransactionRecord.Begun(
                    "m1",
                    1,
                    List.of("spare1:7"),
                    List.of(new PlannedRank(0, "spare1:7", List.of()), new PlannedRank(1, "spare1:7", List.of()))));
            journal.append(new TransactionRecord.StepTimed("m1", 1, "checkpoint", 0, "", 1000, 2_000_000_000L, 4096));
            journal.append(
                    new TransactionRecord.StepTimed("m1", 1, "transfer", -1, "spare1:7", 1500, 3_000_000_000L, 4096));
            journal.appendSynced(new TransactionRecord.CommitDecided("m1", 1));
            journal.appendSynced(new TransactionRecord.Done("m1", 1, FinalOutcome.COMMITTED, ""));
            journal.appendSynced(new TransactionRecord.Begun("m2", 1, List.of("spare2:7"), List.of()));
        }
    }

    private String run(String... arguments) {
        StringWriter out = new StringWriter();
        PrintWriter writer = new PrintWriter(out, true);
        exit = Main.execute(arguments, writer, writer);
        return out.toString();
    }

    @Test
    void shouldListEveryMigration() {
        String text = run("history", "--journal", path.toString());
        assertEquals(0, exit, text);
        List<String> lines = text.lines().toList();
        assertEquals(2, lines.size(), text);
        assertTrue(lines.get(0).matches(".*m1.*committed.*lu\\.C.*"), text);
        assertTrue(lines.get(1).matches(".*m2.*open.*"), text);
    }

    @Test
    void shouldFindTheJournalByItsFolderAndByTheConfiguration() throws Exception {
        String expected = run("history", "--journal", path.toString());
        assertEquals(expected, run("history", "--journal", path.getParent().toString()));
        Path config = Files.writeString(
                path.resolveSibling("target.toml"), "listen = \"n:1\"\njournal = \"" + path.getParent() + "\"\n");
        assertEquals(expected, run("history", "--config", config.toString()));
        assertEquals(0, exit);
        assertTrue(run("show", "m1", "--config", config.toString()).contains("lu.C"));
    }

    @Test
    void shouldShowOneMigrationWithItsPlanAndSteps() {
        String text = run("show", "m1", "--journal", path.toString());
        assertEquals(0, exit, text);
        assertTrue(text.contains("uid 1000") && text.contains("rank 1 -> spare1:7"), text);
        assertTrue(text.contains("commit decided") && text.contains("4096 bytes, 1.500 s beside other steps"), text);
    }

    @Test
    void shouldShowAsTextWhatATerminalWouldObeyInAUsersWords() throws IOException {
        String job = "lu\u001b[2J\nm9  COMMITTED\u009b1m";
        try (MappedJournal journal = MappedJournal.open(path)) {
            journal.appendSynced(new TransactionRecord.Requested("m3", 0, "uid 1000", job, "all"));
            journal.appendSynced(new TransactionRecord.Begun("m3", 1, List.of("spare1:7"), List.of()));
        }
        String listed = run("history", "--journal", path.toString());
        assertEquals(3, listed.lines().count(), listed);
        assertTrue(listed.contains("lu\\u001b[2J\\nm9  COMMITTED\\u009b1m"), listed);
        String json = run("show", "m3", "--json", "--journal", path.toString());
        assertEquals(job, new ObjectMapper().readTree(json).get("job").asText(), json);
        assertTrue((listed + json).chars().noneMatch(one -> Character.isISOControl(one) && one != '\n'), json);
    }

    @Test
    void shouldWriteTheSameAsJson() throws IOException {
        JsonNode one = new ObjectMapper().readTree(run("show", "m1", "--json", "--journal", path.toString()));
        assertEquals("COMMITTED", one.get("outcome").asText());
        assertEquals("uid 1000", one.get("who").asText());
        assertEquals(1500, one.get("steps").get(0).get("overlapMs").asLong());
        assertEquals("spare1:7", one.get("plan").get(1).get("target").asText());
        JsonNode all = new ObjectMapper().readTree(run("history", "--json", "--journal", path.toString()));
        assertEquals(2, all.size());
    }

    @Test
    void shouldSayWhatToDoWhenTheMigrationIsUnknown() {
        String text = run("show", "m3", "--journal", path.toString());
        assertEquals(1, exit, text);
        assertTrue(text.contains("has no migration m3"), text);
    }
}
