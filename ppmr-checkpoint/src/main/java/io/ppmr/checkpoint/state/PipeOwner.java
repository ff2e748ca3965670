package io.ppmr.checkpoint.state;

import io.ppmr.os.BorrowedPipe;
import java.io.IOException;
import java.util.Optional;

/**
 * The owner of a pipe without a name, which CRIU makes again as root: its user could not open it again by {@code
 * /proc/self/fd}, as {@code <(...)} of a shell does. Immutable.
 *
 * @param pid the process that has it, as it sees itself
 * @param descriptor its descriptor there
 * @param uid the user to whom it belongs
 * @param gid the group to which it belongs
 */
public record PipeOwner(int pid, int descriptor, int uid, int gid) {
    private static final int FIELDS = 4;

    /** Returns it as words, the process's number first. */
    public String words() {
        return pid + " " + descriptor + " " + Integer.toUnsignedString(uid) + " " + Integer.toUnsignedString(gid);
    }

    /** Reads what {@link #words} has written; throws IllegalArgumentException otherwise. */
    public static PipeOwner parse(String text) {
        String[] words = text.split(" ", -1);
        if (words.length != FIELDS) {
            throw new IllegalArgumentException("'" + text + "' has not " + FIELDS + " words");
        }
        return new PipeOwner(
                Integer.parseInt(words[0]),
                Integer.parseInt(words[1]),
                Integer.parseUnsignedInt(words[2]),
                Integer.parseUnsignedInt(words[3]));
    }

    /**
     * Gives a copy's pipe to its owner.
     *
     * @param process its process as this service sees it
     * @return why it could not be given; empty if it was
     */
    public Optional<String> set(int process) {
        try (BorrowedPipe pipe = BorrowedPipe.of(process, descriptor)) {
            pipe.giveTo(uid, gid);
            return Optional.empty();
        } catch (IOException e) {
            return Optional.of("its pipe " + descriptor + " belongs to root (" + e.getMessage() + ")");
        }
    }
}
