package io.ppmr.checkpoint.state;

import io.ppmr.linux.BorrowedObject;
import java.io.IOException;
import java.util.Optional;

/**
 * The owner of an unnamed pipe or of a socket, which CRIU restores as root. The user could not open such a pipe again
 * by {@code /proc/self/fd}, as a shell's {@code <(...)} does. Such a socket would count as root's for firewalls with
 * rules for users, and for peers that query the listener's user. Immutable.
 *
 * @param pid its process, in that process's own PID namespace
 * @param descriptor its descriptor in the process
 * @param uid its owner
 * @param gid its group
 */
public record ObjectOwner(int pid, int descriptor, int uid, int gid) {
    private static final int FIELDS = 4;

    /** Finds the backlog of a listening Unix socket. */
    @FunctionalInterface
    public interface Backlogs {
        /**
         * Returns the backlog, or empty if the socket is no listening Unix socket.
         *
         * @param process its process, in this service's PID namespace
         * @param descriptor its descriptor in the process
         */
        Optional<Integer> of(int process, int descriptor) throws IOException;
    }

    /** Returns the owner as words, the process's number first. */
    public String words() {
        return pid + " " + descriptor + " " + Integer.toUnsignedString(uid) + " " + Integer.toUnsignedString(gid);
    }

    /** Parses the text of {@link #words}. Throws IllegalArgumentException if it is invalid. */
    public static ObjectOwner parse(String text) {
        String[] words = text.split(" ", -1);
        if (words.length != FIELDS) {
            throw new IllegalArgumentException("'" + text + "' must have " + FIELDS + " words");
        }
        return new ObjectOwner(
                Integer.parseInt(words[0]),
                Integer.parseInt(words[1]),
                Integer.parseUnsignedInt(words[2]),
                Integer.parseUnsignedInt(words[3]));
    }

    /**
     * Gives a copy's pipe or socket to its owner.
     *
     * @param process its process, in this service's PID namespace
     * @return why that failed, or empty if it succeeded
     */
    public Optional<String> set(int process, Backlogs backlogs) {
        try (BorrowedObject object = BorrowedObject.of(process, descriptor)) {
            if (object.isOwnedBy(uid, gid)) {
                return Optional.empty();
            }
            object.changeOwner(uid, gid);
            Optional<Integer> backlog = backlogs.of(process, descriptor);
            if (backlog.isPresent()) {
                object.listenAs(uid, gid, backlog.get());
            }
            return Optional.empty();
        } catch (IOException e) {
            return Optional.of("its descriptor " + descriptor + " belongs to root (" + e.getMessage() + ")");
        }
    }
}
