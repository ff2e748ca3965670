package io.ppmr.fuse;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The one place where a failed filesystem call becomes an errno and a log line that says why. Stateless. */
final class ErrorReply {
    private static final Logger LOG = LoggerFactory.getLogger(ErrorReply.class);

    private ErrorReply() {}

    /** What libfuse wants for a call that ended with {@code failure}: a negated errno. */
    static int of(String call, String subject, Throwable failure) {
        if (failure instanceof ErrnoException refused) {
            // A name that is not there is an everyday answer: checkpointers ask for a dozen of them.
            if (refused.errno() == Errno.ENOENT) {
                LOG.debug("{} {}: {}", call, subject, refused.getMessage());
            } else {
                LOG.warn("{} {}: {}", call, subject, refused.getMessage());
            }
            return refused.errno().negated();
        }
        LOG.error("{} {}: answered EIO because of an unexpected error", call, subject, failure);
        return Errno.EIO.negated();
    }
}
