package io.ppmr.transport.rdma;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Takes verbs objects down: each is tried, whatever became of others, and one that stays is named in the log. */
final class CloseSequence {
    private static final Logger LOG = LoggerFactory.getLogger(CloseSequence.class);

    private CloseSequence() {}

    /** One call of DiSNI that destroys an object. */
    @FunctionalInterface
    interface CloseAction {
        Object run() throws Exception;
    }

    static void quietly(String what, CloseAction step) {
        try {
            if (step.run() instanceof Integer result && result != 0) {
                LOG.warn("{} could not be destroyed ({}): its memory stays until this process ends", what, result);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            LOG.warn("{} could not be destroyed: interrupted", what);
        } catch (Exception | Error e) {
            // An Error as well: what is left half taken down can be written by a device.
            LOG.warn("{} could not be destroyed: {}", what, e.toString());
        }
    }
}
