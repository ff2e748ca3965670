package io.ppmr.system;

import static io.ppmr.system.PodPair.requireMoreRounds;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.system.PodPair.Memory;
import io.ppmr.testbed.Testbed;
import io.ppmr.transaction.journal.TransactionRecord;
import java.nio.file.Files;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A pod that is moved between nodes of this release and of the release before, both ways, with its connection. */
@Tag("soak")
@Timeout(value = 600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OlderReleasePodIT {
    private static List<Integer> protocols(MovingNode node, String service) throws Exception {
        return node.records(service).stream()
                .filter(TransactionRecord.PeerNode.class::isInstance)
                .map(record -> ((TransactionRecord.PeerNode) record).protocol())
                .toList();
    }

    @ParameterizedTest
    @EnumSource
    void shouldGoOnWithItsConnectionWhenAPodIsMovedToTheReleaseBeforeAndBack(Memory memory) throws Exception {
        MovingNode.assumePossible();
        try (Testbed testbed = Testbed.create("releases")) {
            MovingNode newer = new MovingNode(testbed, 1);
            MovingNode older = new MovingNode(testbed, 2);
            older.bridged().useRelease(OlderRelease.build(testbed.folder("release-before")));
            MovingNode.connect(newer, older);
            newer.start();
            older.start();
            PodPair pods = PodPair.start(newer, older, memory);
            PpmrCommand there = newer.move("1/client", older);
            assertEquals(0, there.exitCode(), there.said());
            assertEquals(List.of(9), protocols(newer, "source"), there.said());
            PodStatus moved = older.list("target").stream()
                    .filter(pod -> pod.name().equals("1/client"))
                    .findFirst()
                    .orElseThrow();
            assertEquals(pods.client().address(), moved.address());
            requireMoreRounds(older, moved);
            PpmrCommand back = older.move("1/client", newer);
            assertEquals(0, back.exitCode(), back.said());
            assertEquals(List.of(9), protocols(newer, "target"), back.said());
            requireMoreRounds(newer, newer.only());
            // A restore that fails at the release before: the pod stays where it is.
            Files.createFile(older.folder().resolve("fail"));
            PpmrCommand failed = newer.move("1/client", older);
            assertEquals(3, failed.exitCode(), failed.said());
            requireMoreRounds(newer, newer.only());
            String server = older.said(pods.server());
            assertTrue(server.lines().noneMatch(line -> line.equals("end")), server);
        }
    }
}
