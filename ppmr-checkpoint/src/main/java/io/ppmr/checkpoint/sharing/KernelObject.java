package io.ppmr.checkpoint.sharing;

/**
 * A kernel object that several processes can hold, or one end of it. Two are equal if they are the same object.
 * Immutable.
 *
 * @param kind its kind
 * @param id its identity among those of its kind
 */
public record KernelObject(ObjectKind kind, String id) {
    /** The kinds, with the end for those that have two. */
    public enum ObjectKind {
        /** The end of a pipe or FIFO at which it is read. */
        PIPE_OUTPUT,
        /** The end of a pipe or FIFO at which it is written. */
        PIPE_INPUT,
        SOCKET,
        /** Memory that is mapped shared. */
        MEMORY,
        /** An open file description, open(2): a file with its position and its flags. */
        DESCRIPTION,
        /** The end of a pseudoterminal that a terminal emulator or sshd has. */
        TERMINAL_MASTER,
        /** The end of a terminal that programs have as their standard streams. */
        TERMINAL
    }

    /** Returns a socket by its number. */
    static KernelObject socket(long inode) {
        return new KernelObject(ObjectKind.SOCKET, Long.toString(inode));
    }

    KernelObject as(ObjectKind other) {
        return new KernelObject(other, id);
    }
}
