package io.ppmr.checkpoint;

import io.ppmr.checkpoint.sharing.EscapedName;
import java.util.ArrayList;
import java.util.List;

/**
 * The files of one rank that are placed at the target, with the facts to undo that. The next run of a service that died
 * can do that, too. Immutable.
 *
 * @param name migration, attempt and rank, {@code ID.ATTEMPT.RANK}
 * @param user the job's user
 * @param entries the files, in their order
 */
public record FilePlacement(String name, JobUser user, List<PlacedFile> entries) {
    private static final String PREFIX = ".ppmr-";

    /**
     * One file.
     *
     * @param path a character from 0 to 255 for each byte
     * @param replaces whether it may replace a file of the job's user
     * @param identity identity of the written file, or empty before
     */
    public record PlacedFile(String path, boolean replaces, String identity) {
        /** Returns the path for people, in one line. */
        public String shown() {
            return EscapedName.text(path);
        }
    }

    public FilePlacement {
        entries = List.copyOf(entries);
    }

    /** Returns the name under which a file is written. The replaced file gets that name later. */
    public String temporaryName(int index) {
        return PREFIX + name + "." + index;
    }

    /** Returns the placement with the identities of the files, which are written now. */
    public FilePlacement withIdentities(List<String> identities) {
        List<PlacedFile> written = new ArrayList<>();
        for (int index = 0; index < entries.size(); index++) {
            PlacedFile entry = entries.get(index);
            written.add(new PlacedFile(entry.path(), entry.replaces(), identities.get(index)));
        }
        return new FilePlacement(name, user, written);
    }
}
