package io.ppmr.transport;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import org.agrona.concurrent.IdleStrategy;

/**
 * Idle strategy of a {@link ControlLink}'s agent. It sleeps in the kernel until the link has work, another thread wakes
 * it, or its next timer is due. Nothing spins.
 */
public final class LinkIdle implements IdleStrategy {
    private final ControlLink link;
    private final BooleanSupplier hasWork;
    private final LongSupplier sleepMs;

    /**
     * @param hasWork whether the agent received other work while it prepared to sleep
     * @param sleepMs the maximum sleep
     */
    public LinkIdle(ControlLink link, BooleanSupplier hasWork, LongSupplier sleepMs) {
        this.link = link;
        this.hasWork = hasWork;
        this.sleepMs = sleepMs;
    }

    @Override
    public void idle(int workCount) {
        if (workCount <= 0) {
            idle();
        }
    }

    @Override
    public void idle() {
        link.prepareToSleep();
        if (hasWork.getAsBoolean()) {
            return;
        }
        try {
            link.idle(sleepMs.getAsLong());
        } catch (IOException e) {
            throw new UncheckedIOException("waiting on the control connection to " + link.peer(), e);
        }
    }

    @Override
    public void reset() {
        // Nothing to reset, because a sleep leaves no state.
    }
}
