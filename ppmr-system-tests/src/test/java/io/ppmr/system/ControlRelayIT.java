package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.system.TamperingRelay.Tampering;
import io.ppmr.transport.auth.Encryption;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Whole migrations through an attacker that has no key, and is between a source and a target. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ControlRelayIT {
    private static final String MARKER = "name-that-only-this-job-has";
    private static final List<String> CHECKPOINT = List.of("open " + MARKER + " wcx", "write 1m", "close");
    private static final List<String> RESTART = List.of("open " + MARKER + " r", "read 1m", "eof");
    private static final int RECORDS = 12;

    @TempDir
    private Path directory;

    private ReplayJob job(Path folder) throws Exception {
        return new ReplayJob(folder).announces(MARKER).rank(CHECKPOINT, RESTART);
    }

    /** The marker is found without encryption, so the search can fail. */
    @ParameterizedTest
    @CsvSource({"CONTROL, false", "OFF, true"})
    void shouldShowNoNameOfTheJobToWhoeverReadsTheNetwork(Encryption encryption, boolean isFound) throws Exception {
        try (TamperingRelay relay = new TamperingRelay(Tampering.NOTHING, false, 0);
                ReplayJob job = job(directory);
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(job.checkpointer()).encryption(encryption),
                        List.of(relay.address()))) {
            relay.target(pair.target().address());
            job.commits(pair);
            assertEquals(isFound, relay.seen().contains(MARKER));
            assertTrue(relay.seen().length() > 1 << 20, "the image passed");
        }
    }

    /**
     * The attempt through the attacker ends as one whose link is lost at that step. The job moves by the next attempt,
     * which does not pass the attacker, or by the same one on another connection, once that is decided.
     */
    @ParameterizedTest
    @EnumSource(value = Tampering.class, mode = EnumSource.Mode.EXCLUDE, names = "NOTHING")
    void shouldMoveTheJobWholeWhenARecordIsTamperedWith(Tampering tampering) throws Exception {
        movesWhole(tampering, List.of(true, false), List.of(2));
    }

    @Tag("soak")
    @ParameterizedTest
    @EnumSource(value = Tampering.class, mode = EnumSource.Mode.EXCLUDE, names = "NOTHING")
    void shouldMoveTheJobWholeWhicheverRecordIsTamperedWith(Tampering tampering) throws Exception {
        List<Integer> records = new ArrayList<>();
        for (int record = 0; record < RECORDS; record++) {
            records.add(record);
        }
        movesWhole(tampering, List.of(true, false), records);
    }

    private void movesWhole(Tampering tampering, List<Boolean> directions, List<Integer> records) throws Exception {
        for (boolean ofTarget : directions) {
            for (int record : records) {
                String name = tampering + "-" + ofTarget + "-" + record;
                Path folder = Files.createDirectory(directory.resolve(name));
                for (Path made : List.of(directory, folder)) {
                    // The job's user reads scripts below.
                    Files.setPosixFilePermissions(made, PosixFilePermissions.fromString("rwxr-xr-x"));
                }
                try (TamperingRelay relay = new TamperingRelay(tampering, ofTarget, record);
                        ReplayJob job = job(folder);
                        ServicePair pair = new ServicePair(
                                folder, ServicePair.Options.with(job.checkpointer()), List.of(relay.address()))) {
                    relay.target(pair.target().address());
                    job.commits(pair);
                    assertTrue(relay.hasTampered(), name + ": the record passed");
                }
            }
        }
    }
}
