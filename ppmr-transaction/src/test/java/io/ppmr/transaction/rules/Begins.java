package io.ppmr.transaction.rules;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.transaction.journal.PlannedRank;
import java.util.List;

/** Begin messages for tests: the participants, and the receiver among them. */
public final class Begins {
    private Begins() {}

    /** Returns the copy that a participant has after its successful restarts. */
    public static List<PlannedRank> copies(String self) {
        return List.of(new PlannedRank(0, self, List.of(new ProcessIdentity("boot", 1, 7, 1))));
    }

    /** Returns the message that {@code self} receives. */
    public static ControlMessage.Begin of(String migrationId, List<String> participants, String self) {
        int place = participants.indexOf(self);
        return new ControlMessage.Begin(
                migrationId,
                MigrationSecret.NONE,
                "",
                "",
                0,
                0,
                List.of(),
                new ControlMessage.Begin.TransferPlan(0, 0, 1, 0),
                participants,
                place,
                new ControlMessage.Begin.Placement(List.of(), List.of()),
                "");
    }
}
