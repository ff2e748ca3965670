package io.ppmr.checkpoint.sharing;

import io.ppmr.linux.Kcmp;
import io.ppmr.linux.Kcmp.Descriptor;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * The open file descriptions of a job, each by its first descriptor, in the kernel's order, so that a lookup takes few
 * comparisons. The kernel shows the same name for all descriptors of one description, so only those of one name are
 * compared. Names can be long, so their hashes are used. Equal hashes of two names only cost some comparisons. For one
 * scan and one thread.
 */
final class Descriptions {
    private static final int GONE = Integer.MIN_VALUE;

    private final Map<Integer, List<Descriptor>> byName = new HashMap<>();

    /** Returns the first descriptor of the same description. Adds this one as the first if there is none. */
    Optional<Descriptor> add(String name, Descriptor descriptor) throws IOException {
        List<Descriptor> known = byName.computeIfAbsent(name.hashCode(), unknown -> new ArrayList<>(1));
        int place = place(known, descriptor);
        if (place >= 0) {
            return Optional.of(known.get(place));
        }
        if (place != GONE) {
            known.add(-place - 1, descriptor);
        }
        return Optional.empty();
    }

    /** Returns the first descriptor of the same description that was added. */
    Optional<Descriptor> find(String name, Descriptor descriptor) throws IOException {
        List<Descriptor> known = byName.get(name.hashCode());
        if (known == null) {
            return Optional.empty();
        }
        int place = place(known, descriptor);
        return place < 0 ? Optional.empty() : Optional.of(known.get(place));
    }

    /** Returns the place in the list, or -1 minus the place where it belongs, or {@link #GONE}. */
    private static int place(List<Descriptor> known, Descriptor wanted) throws IOException {
        int low = 0;
        int high = known.size() - 1;
        while (low <= high) {
            int middle = (low + high) >>> 1;
            OptionalInt order = Kcmp.compare(wanted, known.get(middle));
            if (order.isEmpty()) {
                if (Kcmp.compare(wanted, wanted).isEmpty()) {
                    return GONE;
                }
                // The rank has closed that descriptor in the meantime.
                known.remove(middle);
                high--;
            } else if (order.getAsInt() == 0) {
                return middle;
            } else if (order.getAsInt() < 0) {
                high = middle - 1;
            } else {
                low = middle + 1;
            }
        }
        return -low - 1;
    }
}
