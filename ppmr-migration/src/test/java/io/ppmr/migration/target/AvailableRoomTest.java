package io.ppmr.migration.target;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.migration.target.Admission.AvailableRoom;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.target.session.TransferSettings;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the free room of a node for one more migration. */
class AvailableRoomTest {
    private static final long MIB = 1 << 20;
    private static final PoolGeometry POOL = PoolGeometry.of(8 << 20, 128 << 10);

    @TempDir
    private Path directory;

    private static TargetSettings settings(Path staging) {
        return new TargetSettings(
                null,
                null,
                null,
                POOL,
                new TransferSettings(staging, 0, 0, Duration.ZERO),
                null,
                new RestoreTools(List.of()),
                new TargetRules(null, false, true, 2, List.of()),
                Optional.empty(),
                TargetSettings.Commands.NONE,
                CarryPolicy.NONE,
                RightsBounds.DEFAULT_FILES);
    }

    private static NodeFacts node(long stagingBytes) {
        return new NodeFacts(
                "n", "amd64", "6.1", "g", "17", 0, 1000 * MIB, stagingBytes, 1, List.of(), List.of(), List.of());
    }

    private static ArrivalAccount incoming(long bytes, boolean retained) {
        Begin begin = new Begin(
                "m",
                MigrationSecret.NONE,
                "j",
                "c",
                1,
                1,
                List.of(0),
                new Begin.TransferPlan(128 << 10, 1, 1, 0),
                List.of("a:1"),
                0,
                new Begin.Placement(List.of(), List.of()),
                "");
        return new ArrivalAccount(begin, "b:2", new JobFacts("c", bytes, 0, List.of()), retained);
    }

    @Test
    void shouldHaveWhatIsConfiguredWhenNothingElseLimitsIt() {
        AvailableRoom room = AvailableRoom.of(node(MIB), settings(directory), List.of(), 0);
        assertEquals(MIB, room.node().stagingBytes());
        assertEquals("", room.room().whyStagingIsSmall());
        assertEquals(0, room.room().promisedBytes());
    }

    @Test
    void shouldHaveNoMoreThanIsFreeWhenMoreIsConfigured() {
        AvailableRoom room = AvailableRoom.of(node(Long.MAX_VALUE / 2), settings(directory), List.of(), 0);
        assertTrue(
                room.node().stagingBytes() < Long.MAX_VALUE / 4,
                () -> "" + room.node().stagingBytes());
        assertTrue(room.room().whyStagingIsSmall().startsWith(", because " + directory + " has "), room.toString());
    }

    @Test
    void shouldHaveNoRoomWhenThereIsNoPlaceForStaging() {
        AvailableRoom room = AvailableRoom.of(node(MIB), settings(directory.resolve("none")), List.of(), 0);
        assertEquals(0, room.node().stagingBytes());
        assertTrue(room.room().whyStagingIsSmall().contains("has 0 MiB left"), room.toString());
    }

    @Test
    void shouldLeaveToOthersWhatTheyWillTake() {
        long much = Long.MAX_VALUE / 8;
        AvailableRoom streamed = AvailableRoom.of(node(0), settings(directory), List.of(incoming(7 * MIB, false)), 0);
        assertEquals(7 * MIB, streamed.room().promisedBytes());
        AvailableRoom retained = AvailableRoom.of(node(MIB), settings(directory), List.of(incoming(much, true)), 0);
        assertEquals(0, retained.node().stagingBytes());
        assertTrue(
                retained.room().whyStagingIsSmall().contains("MiB are for migrations under way"), retained.toString());
    }

    /** Their pages are there twice for a time. */
    @Test
    void shouldLeaveToCopiesThatAreFilledWhatTheyMayNeed() {
        AvailableRoom room = AvailableRoom.of(node(0), settings(directory), List.of(incoming(7 * MIB, false)), 5 * MIB);
        assertEquals(12 * MIB, room.room().promisedBytes());
    }

    @Test
    void shouldCountAnImageAsMemoryWhereStagingIsInMemory() {
        AvailableRoom room = AvailableRoom.of(node(0), settings(Path.of("/dev/shm")), List.of(incoming(MIB, true)), 0);
        assertTrue(room.room().stagingInMemory());
        // Its ranks, its image, and one leaf of that image's map.
        assertEquals(2 * MIB + 1024, room.room().promisedBytes());
    }
}
