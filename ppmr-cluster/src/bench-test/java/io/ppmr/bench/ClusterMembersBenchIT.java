package io.ppmr.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Checkpoints of a job over sixteen nodes, whose sources are played: the number of messages does not grow. */
@Timeout(400)
class ClusterMembersBenchIT {
    private static final String PREFIX = "16 members: ";

    @TempDir
    private Path folder;

    @Test
    void shouldNeedAFewTransactionsAndMessagesWhateverTheNumberOfMembers() throws Exception {
        Path json = folder.resolve("result.json");
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int status = Bench.execute(
                new String[] {"cluster", "--members", "16", "--checkpoints", "4", "--json", json.toString()},
                new PrintWriter(out),
                new PrintWriter(err));
        assertEquals(0, status, () -> out + "\n" + err);
        JsonNode details = new ObjectMapper().readTree(json.toFile()).path("details");
        requireAtMost(4, details, "transactions a checkpoint");
        requireAtMost(3, details, "notifications for a member");
        requireAtMost(3, details, "reads of the record for a member");
        requireAtMost(2, details, "reports of a member");
        requireAtMost(10_000, details, "milliseconds from the last OUT until all have read GO");
    }

    private static void requireAtMost(double most, JsonNode details, String what) {
        double figure = details.path(PREFIX + what).asDouble(-1);
        assertTrue(figure > 0 && figure <= most, () -> what + ": " + figure + " of " + details);
    }
}
