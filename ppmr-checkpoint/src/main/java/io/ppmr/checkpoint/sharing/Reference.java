package io.ppmr.checkpoint.sharing;

/**
 * A process of a rank refers to another process, or to a file, without holding it. Immutable.
 *
 * @param holder the process of the rank
 * @param kind the kind of the reference
 * @param place place in the process: {@code descriptor 3}, {@code thread 17}
 * @param other the other process; PID 0 if there is none
 */
public record Reference(Holder holder, ReferenceKind kind, String place, Holder other) {
    /** The kinds of references. */
    public enum ReferenceKind {
        /** The other process traces it, ptrace(2). */
        TRACED,
        /** A pidfd that means the other process. */
        PIDFD,
        /** An epoll instance that watches a file which only the other process, or no visible process, has open. */
        EPOLL,
        /** A descriptor that was opened through a mount which is not in the process's mount namespace. */
        MOUNT,
        /** Its first thread ended, and others run. */
        LEADER
    }
}
