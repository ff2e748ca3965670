package io.ppmr.checkpoint.state;

import io.ppmr.os.BorrowedObject;
import java.io.IOException;
import java.util.Optional;

/**
 * The owner of a pipe without a name or of a socket, which CRIU makes again as root. Its user could not open such a
 * pipe again by {@code /proc/self/fd}, as {@code <(...)} of a shell does. Such a socket would count as root's: for
 * firewalls that go by users, and for those who ask it who listens. Immutable.
 *
 * @param pid the process that has it, as it sees itself
 * @param descriptor its descriptor there
 * @param uid its owner
 * @param gid the group to which it belongs
 */
public record ObjectOwner(int pid, int descriptor, int uid, int gid) {
    private static final int FIELDS = 4;

    /** Finds how many connections may wait at a Unix socket that listens. */
    @FunctionalInterface
    public interface Backlogs {
        /**
         * Returns that number; empty if the socket is none of these.
         *
         * @param process the process that has it, as this service sees it
         * @param descriptor its descriptor there
         */
        Optional<Integer> of(int process, int descriptor) throws IOException;
    }

    /** Returns it as words, the process's number first. */
    public String words() {
        return pid + " " + descriptor + " " + Integer.toUnsignedString(uid) + " " + Integer.toUnsignedString(gid);
    }

    /** Reads what {@link #words} has written; throws IllegalArgumentException otherwise. */
    public static ObjectOwner parse(String text) {
        String[] words = text.split(" ", -1);
        if (words.length != FIELDS) {
            throw new IllegalArgumentException("'" + text + "' has not " + FIELDS + " words");
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
     * @param process its process as this service sees it
     * @return why it could not be given; empty if it was
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
