package io.ppmr.checkpoint.sharing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.sharing.KernelObject.ObjectKind;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.UnixSocket;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;

/** Tests the decision without a node: which holds are reasons to refuse which ranks. */
class SharingRulesTest {
    private static final int USER = 4400;
    private static final Holder FIRST = new Holder(100, "solver", 0);
    private static final Holder CHILD = new Holder(101, "helper", 0);
    private static final Holder SECOND = new Holder(200, "solver", 1);
    private static final Holder STRANGER = new Holder(300, "logger", Holder.OUTSIDE);

    private final List<Hold> holds = new ArrayList<>();
    private final List<Reference> references = new ArrayList<>();
    private final Map<Long, UnixSocket> sockets = new HashMap<>();
    private final Map<Integer, ProcStat> processes = new HashMap<>();
    private final Map<Integer, Integer> users = new HashMap<>();

    private void hold(Holder holder, int descriptor, ObjectKind kind, String id) {
        holds.add(new Hold(holder, "descriptor " + descriptor, new KernelObject(kind, id), id));
    }

    private void socket(long inode, int type, int state, long peer, String name, Long... waiting) {
        sockets.put(inode, new UnixSocket(inode, type, state, peer, name, "", 0, List.of(waiting), 0));
    }

    private void process(int pid, int parent, int session) {
        processes.put(pid, new ProcStat(pid, "sh", 'S', parent, session, 0, 0, 1));
        users.put(pid, USER);
    }

    private Map<Integer, List<Refusal>> refusals(Long... movable) {
        return SharingRules.refusals(new JobHolds(holds, references, sockets, processes, users, Set.of(movable), 0));
    }

    private String refused(int rank) {
        List<Refusal> found = refusals().get(rank);
        assertTrue(found != null && !found.isEmpty(), "rank " + rank + " is not refused");
        return found.get(0).toString();
    }

    private static void assertContainsAll(String text, String... words) {
        for (String word : words) {
            assertTrue(text.contains(word), "'" + text + "' does not say '" + word + "'");
        }
    }

    // ---- pipes ---------------------------------------------------------------------------------------------------

    @Test
    void shouldNameTheReaderWhenARankWritesIntoAPipe() {
        hold(FIRST, 1, ObjectKind.PIPE_INPUT, "pipe:[7]");
        hold(STRANGER, 0, ObjectKind.PIPE_OUTPUT, "pipe:[7]");
        assertContainsAll(
                refused(0),
                "PID 100 (solver) has the pipe pipe:[7] as descriptor 1",
                "read by PID 300 (logger) as descriptor 0",
                "outside of the rank",
                "Remedy: have the job write to a file");
    }

    @Test
    void shouldRefuseBothWhenAPipeJoinsTwoRanks() {
        hold(FIRST, 1, ObjectKind.PIPE_INPUT, "pipe:[7]");
        hold(SECOND, 0, ObjectKind.PIPE_OUTPUT, "pipe:[7]");
        assertContainsAll(refused(0), "which belongs to rank 1");
        assertContainsAll(refused(1), "which belongs to rank 0");
    }

    @Test
    void shouldRefuseNothingWhenAPipeIsWithinTheRank() {
        hold(FIRST, 1, ObjectKind.PIPE_INPUT, "pipe:[7]");
        hold(CHILD, 0, ObjectKind.PIPE_OUTPUT, "pipe:[7]");
        assertEquals(Map.of(), refusals());
    }

    @Test
    void shouldRefuseNothingWhenNobodyHasTheOtherEnd() {
        hold(FIRST, 1, ObjectKind.PIPE_INPUT, "pipe:[7]");
        hold(STRANGER, 3, ObjectKind.PIPE_INPUT, "pipe:[7]");
        assertEquals(Map.of(), refusals());
    }

    @Test
    void shouldRefuseWhenARankHasBothEndsAndAnotherProcessOne() {
        hold(FIRST, 3, ObjectKind.PIPE_OUTPUT, "pipe:[7]");
        hold(FIRST, 4, ObjectKind.PIPE_INPUT, "pipe:[7]");
        hold(STRANGER, 4, ObjectKind.PIPE_INPUT, "pipe:[7]");
        assertContainsAll(refused(0), "as descriptor 3, and its data is written by PID 300");
    }

    // ---- sockets -------------------------------------------------------------------------------------------------

    @Test
    void shouldNameTheServerWhenARankIsConnectedToOne() {
        hold(FIRST, 5, ObjectKind.SOCKET, "50");
        hold(STRANGER, 9, ObjectKind.SOCKET, "51");
        socket(50, 1, 1, 51, "");
        socket(51, 1, 1, 50, "/run/nscd/socket\0");
        assertContainsAll(
                refused(0),
                "the Unix socket 50, with the address /run/nscd/socket",
                "its other end belongs to PID 300 (logger) as descriptor 9",
                "name /run/nscd/socket in external_sockets");
        assertEquals(Map.of(), refusals(50L));
    }

    @Test
    void shouldRefuseWhenNobodyThatIsSeenHasTheOtherSide() {
        hold(FIRST, 5, ObjectKind.SOCKET, "50");
        socket(50, 1, 1, 51, "");
        assertContainsAll(refused(0), "its other end belongs to no process of the rank");
    }

    @Test
    void shouldRefuseNothingWhenTheOtherSideHasClosed() {
        hold(FIRST, 5, ObjectKind.SOCKET, "50");
        socket(50, 1, 1, 0, "");
        assertEquals(Map.of(), refusals());
    }

    @Test
    void shouldRefuseWhenAClientOutsideWaitsToBeAccepted() {
        hold(FIRST, 5, ObjectKind.SOCKET, "50");
        hold(STRANGER, 9, ObjectKind.SOCKET, "60");
        socket(50, 1, 10, 0, "/tmp/s", 60L);
        socket(60, 1, 1, 0, "");
        assertContainsAll(refused(0), "its other end belongs to PID 300");
    }

    @Test
    void shouldRefuseWhenARankWaitsToBeAcceptedByAServerOutside() {
        hold(FIRST, 5, ObjectKind.SOCKET, "60");
        hold(STRANGER, 9, ObjectKind.SOCKET, "50");
        socket(50, 1, 10, 0, "/tmp/s", 60L);
        socket(60, 1, 1, 0, "");
        assertContainsAll(refused(0), "its other end belongs to PID 300");
    }

    @Test
    void shouldRefuseWhenAClientOutsideSendsDatagramsToTheRank() {
        hold(FIRST, 5, ObjectKind.SOCKET, "50");
        hold(STRANGER, 9, ObjectKind.SOCKET, "60");
        socket(50, 2, 7, 0, "/tmp/s");
        socket(60, 2, 1, 50, "");
        assertContainsAll(refused(0), "/tmp/s", "its other end belongs to PID 300");
    }

    @Test
    void shouldRefuseNothingWhenAServerOfTheRankWaitsForClients() {
        hold(FIRST, 5, ObjectKind.SOCKET, "50");
        socket(50, 1, 10, 0, "/tmp/s");
        assertEquals(Map.of(), refusals());
    }

    // ---- terminals, memory, open files ---------------------------------------------------------------------------

    @Test
    void shouldRefuseATerminalWhoseMasterIsNotInTheRank() {
        hold(FIRST, 0, ObjectKind.TERMINAL, "0:25 3");
        assertContainsAll(refused(0), "its other end belongs to no process of the rank", "</dev/null");
        hold(STRANGER, 8, ObjectKind.TERMINAL_MASTER, "0:25 3");
        assertContainsAll(refused(0), "its other end belongs to PID 300 (logger) as descriptor 8");
    }

    @Test
    void shouldRefuseNothingWhenTheMasterIsInTheRankAndAnotherTerminalHasItsNumber() {
        hold(FIRST, 3, ObjectKind.TERMINAL_MASTER, "0:25 3");
        hold(CHILD, 0, ObjectKind.TERMINAL, "0:25 3");
        hold(STRANGER, 8, ObjectKind.TERMINAL_MASTER, "0:99 3");
        hold(STRANGER, 0, ObjectKind.TERMINAL, "0:99 3");
        assertEquals(Map.of(), refusals());
    }

    @Test
    void shouldOfferTheCommonLeaderWhenRanksShareAFile() {
        process(50, 1, 50);
        process(60, 50, 50);
        process(100, 60, 100);
        process(200, 60, 200);
        hold(FIRST, 1, ObjectKind.DESCRIPTION, "100/1");
        hold(SECOND, 1, ObjectKind.DESCRIPTION, "100/1");
        assertContainsAll(
                refused(0), "Remedy: name PID 50 (sh), from which both descend", "or open a file for each process");
        users.put(50, 0);
        assertFalse(refused(0).contains("PID 50"), refused(0));
    }

    @Test
    void shouldEscapeNamesThatAJobChooses() {
        holds.add(new Hold(
                FIRST, "descriptor 1", new KernelObject(ObjectKind.DESCRIPTION, "100/1"), "/tmp/\n2026 COMMITTED"));
        holds.add(new Hold(
                new Holder(300, "a\u001b]b", Holder.OUTSIDE),
                "descriptor 1",
                new KernelObject(ObjectKind.DESCRIPTION, "100/1"),
                "/tmp/\n2026 COMMITTED"));
        assertContainsAll(refused(0), "/tmp/\\0122026 COMMITTED", "a\\033]b");
    }

    // ---- references ----------------------------------------------------------------------------------------------

    @Test
    void shouldRefuseATracedRankWhoeverTracesIt() {
        references.add(new Reference(FIRST, Reference.ReferenceKind.TRACED, "thread 100", CHILD));
        assertContainsAll(refused(0), "PID 100 (solver) is traced (thread 100) by PID 101 (helper)");
    }

    @Test
    void shouldRefuseAPidfdOfAProcessOutsideAlone() {
        references.add(new Reference(FIRST, Reference.ReferenceKind.PIDFD, "descriptor 4", CHILD));
        assertEquals(Map.of(), refusals());
        references.add(new Reference(FIRST, Reference.ReferenceKind.PIDFD, "descriptor 5", STRANGER));
        assertContainsAll(refused(0), "a pidfd of PID 300 (logger) as descriptor 5");
    }

    // ---- any job -------------------------------------------------------------------------------------------------

    @Provide
    Arbitrary<List<Hold>> anyHolds() {
        Arbitrary<Holder> holders = Arbitraries.of(FIRST, CHILD, SECOND, STRANGER);
        Arbitrary<KernelObject> objects = Combinators.combine(
                        Arbitraries.of(ObjectKind.class), Arbitraries.of("1", "2", "3", "4"))
                .as(KernelObject::new);
        return Combinators.combine(holders, Arbitraries.integers().between(0, 9), objects)
                .as((holder, number, object) -> new Hold(holder, "descriptor " + number, object, "name"))
                .list()
                .ofMaxSize(30);
    }

    /** A reason is always true for the scan. */
    @Property
    void shouldNameAProcessOfTheRankAndOneOutsideThatHasTheSameObject(@ForAll("anyHolds") List<Hold> any) {
        JobHolds look = new JobHolds(any, List.of(), Map.of(), Map.of(), Map.of(), Set.of(), 0);
        SharingRules.refusals(look).forEach((rank, found) -> {
            assertTrue(rank == FIRST.rank() || rank == SECOND.rank());
            for (Refusal refusal : found) {
                assertEquals(rank, refusal.rank());
                boolean named = any.stream()
                        .anyMatch(hold -> hold.holder().rank() == rank
                                && refusal.reason().startsWith(hold.holder() + " has ")
                                && any.stream()
                                        .anyMatch(other -> other.holder().rank() != rank
                                                && other.object()
                                                        .id()
                                                        .equals(hold.object().id())
                                                && refusal.reason().contains(other.toString())));
                assertTrue(named || refusal.reason().endsWith("belongs to no process of the rank"), refusal.reason());
            }
        });
    }

    /** A single job on its node shares no objects with others, except for a terminal without its master. */
    @Property
    void shouldRefuseNoRankThatIsAlone(@ForAll("anyHolds") List<Hold> any) {
        List<Hold> own = any.stream()
                .filter(hold -> hold.holder().rank() == 0 && hold.object().kind() != ObjectKind.TERMINAL)
                .toList();
        assertEquals(
                Map.of(),
                SharingRules.refusals(new JobHolds(own, List.of(), Map.of(), Map.of(), Map.of(), Set.of(), 0)));
    }

    /** No rank is refused for the other one's reasons. All shared objects are refused for both, or for neither. */
    @Property
    void shouldRefuseBothRanksWhenTheyShareMemory(@ForAll("anyHolds") List<Hold> any) {
        List<Hold> ranks = any.stream()
                .filter(hold -> hold.holder().isOfJob() && hold.object().kind() == ObjectKind.MEMORY)
                .toList();
        Set<Integer> refused = SharingRules.refusals(
                        new JobHolds(ranks, List.of(), Map.of(), Map.of(), Map.of(), Set.of(), 0))
                .keySet();
        assertTrue(refused.isEmpty() || refused.equals(Set.of(0, 1)), refused.toString());
    }
}
