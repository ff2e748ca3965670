package io.ppmr.transport.rdma;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Destroys verbs objects. Each destruction is attempted, regardless of earlier failures, and a failure is logged with
 * the object's name.
 */
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
            // An Error as well, because a device can still write to a partly destroyed object.
            LOG.warn("{} could not be destroyed: {}", what, e.toString());
        }
    }
}
