package io.ppmr.checkpoint;

import io.ppmr.checkpoint.sharing.Shown;
import java.util.ArrayList;
import java.util.List;

/**
 * The files of one rank that are put at their places at the target: what has to be known to undo it, also by a service
 * that finds this one dead. Immutable.
 *
 * @param name of the migration, the attempt and the rank, {@code ID.ATTEMPT.RANK}
 * @param user the job's
 * @param entries the files, in their order
 */
public record Placement(String name, JobUser user, List<Entry> entries) {
    private static final String PREFIX = ".ppmr-";

    /**
     * One file.
     *
     * @param path a character from 0 to 255 for each byte
     * @param replaces whether it may take the place of a file of the job's user
     * @param identity what tells it from every other file, once it was written; else empty
     */
    public record Entry(String path, boolean replaces, String identity) {
        /** Returns the path for people, in one line. */
        public String shown() {
            return Shown.text(path);
        }
    }

    public Placement {
        entries = List.copyOf(entries);
    }

    /** Returns the name under which a file is written; what it replaces has that name later. */
    public String temporaryName(int index) {
        return PREFIX + name + "." + index;
    }

    /** Returns the same with the identities of the files, which are written now. */
    public Placement withIdentities(List<String> identities) {
        List<Entry> written = new ArrayList<>();
        for (int index = 0; index < entries.size(); index++) {
            Entry entry = entries.get(index);
            written.add(new Entry(entry.path(), entry.replaces(), identities.get(index)));
        }
        return new Placement(name, user, written);
    }
}
