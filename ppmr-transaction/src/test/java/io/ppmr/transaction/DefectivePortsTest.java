package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.transaction.rules.Begins;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.Originals;
import io.ppmr.transaction.rules.TransactionTimes;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Ports that throw once, by a defect of the service: what was decided is carried out all the same. */
class DefectivePortsTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    private final List<String> calls = new ArrayList<>();
    private final Set<String> threw = new HashSet<>();
    private final TransactionTimes times = TransactionTimes.usual(15 * SECOND, 0);
    private long nowNs = 1000 * SECOND;

    /** Ports that note their calls and succeed, but for the first call of this method. */
    private <P> P ports(Class<P> type, String throwsOnce) {
        return type.cast(
                Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, given) -> {
                    if (method.getName().equals(throwsOnce) && threw.add(throwsOnce)) {
                        throw new IllegalStateException("a defect of " + throwsOnce);
                    }
                    calls.add(method.getName());
                    Class<?> gives = method.getReturnType();
                    if (gives == boolean.class) {
                        return true;
                    }
                    if (gives == List.class) {
                        return List.of();
                    }
                    if (gives == Originals.class) {
                        return Originals.HELD;
                    }
                    return gives == String.class ? "" : null;
                }));
    }

    private void pass(TransactionDriver<?> driver) {
        long endNs = nowNs + 10 * SECOND;
        while (nowNs < endNs) {
            nowNs = Math.min(endNs, Math.max(nowNs + 1, driver.nextDeadlineNs()));
            driver.tick(nowNs);
        }
    }

    private void requireEnded(TransactionDriver<?> driver, String port, String before) {
        assertTrue(threw.contains(port), () -> "nothing has called " + port + ", but " + calls);
        assertTrue(driver.isSettled(), calls::toString);
        assertEquals(1, calls.stream().filter("finished"::equals).count(), calls::toString);
        assertTrue(calls.indexOf(before) >= 0 && calls.indexOf(before) < calls.indexOf("finished"), calls::toString);
    }

    private Coordinator sealed(String throwsOnce) {
        Coordinator coordinator =
                new Coordinator("m", times, new InMemoryJournal(), ports(Coordinator.Ports.class, throwsOnce));
        coordinator.start(List.of("a"), List.of(), nowNs);
        pass(coordinator);
        coordinator.heard("a", 1, new ControlMessage.Accept(0, 0, 1_000), nowNs);
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        pass(coordinator);
        return coordinator;
    }

    @ParameterizedTest
    @ValueSource(strings = {"startAttempt", "seal", "send", "originals", "endOriginals", "reconnect", "finished"})
    void shouldCommitAtTheSourceWhenAPortThrowsOnce(String port) {
        Coordinator coordinator = sealed(port);
        coordinator.heard("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        pass(coordinator);
        coordinator.heard("a", 1, new ControlMessage.StillHeld("m"), nowNs);
        pass(coordinator);
        coordinator.heard("a", 1, new ControlMessage.Committed("m"), nowNs);
        pass(coordinator);
        requireEnded(coordinator, port, "endOriginals");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "originals",
                "nextAttempt",
                "stopAttempt",
                "send",
                "continueOriginals",
                "resume",
                "finished",
            })
    void shouldRollBackAtTheSourceWhenAPortThrowsOnce(String port) {
        Coordinator coordinator = sealed(port);
        coordinator.fail("link lost", "a", nowNs);
        pass(coordinator);
        coordinator.heard("a", 1, new ControlMessage.RolledBack("m", ""), nowNs);
        pass(coordinator);
        requireEnded(coordinator, port, "continueOriginals");
    }

    @ParameterizedTest
    @ValueSource(strings = {"originals", "continueOriginals"})
    void shouldRollBackARestartedSourceWhenAPortThrowsOnce(String port) {
        InMemoryJournal journal = new InMemoryJournal();
        new Coordinator("m", times, journal, ports(Coordinator.Ports.class, "none"))
                .start(List.of("a"), List.of(), nowNs);
        calls.clear();
        Coordinator coordinator = new Coordinator("m", times, journal, ports(Coordinator.Ports.class, port));
        coordinator.recover(journal.records("m"), nowNs);
        pass(coordinator);
        requireEnded(coordinator, port, "continueOriginals");
    }

    private Participant begun(String throwsOnce) {
        Participant participant =
                new Participant("m", times, new InMemoryJournal(), ports(Participant.Ports.class, throwsOnce));
        participant.linkUp(nowNs);
        participant.heard(1, Begins.of("m", List.of("a"), "a"), nowNs);
        pass(participant);
        return participant;
    }

    @ParameterizedTest
    @ValueSource(strings = {"startRestore", "reply", "copiesHeld", "releaseCopies", "finished"})
    void shouldCommitAtATargetWhenAPortThrowsOnce(String port) {
        Participant participant = begun(port);
        participant.copiesHeld("s", Begins.copies("a"), nowNs);
        pass(participant);
        participant.heard(1, new ControlMessage.Confirm("m"), nowNs);
        pass(participant);
        participant.heard(1, new ControlMessage.Commit("m"), nowNs);
        pass(participant);
        requireEnded(participant, port, "releaseCopies");
    }

    @ParameterizedTest
    @ValueSource(strings = {"endCopies", "reply", "finished"})
    void shouldRollBackAtATargetWhenAPortThrowsOnce(String port) {
        Participant participant = begun(port);
        participant.heard(1, new ControlMessage.RollBack("m", "called off"), nowNs);
        pass(participant);
        requireEnded(participant, port, "endCopies");
    }
}
