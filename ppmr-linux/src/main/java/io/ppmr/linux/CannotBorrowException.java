package io.ppmr.linux;

import java.io.IOException;

/**
 * No descriptor of another process can be borrowed on this node: the kernel is older than Linux 5.6, or it denies this
 * process pidfd_getfd(2). The cause does not depend on the descriptor.
 */
public final class CannotBorrowException extends IOException {
    private static final long serialVersionUID = 1L;

    CannotBorrowException(String message) {
        super(message);
    }
}
