package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.Refusal;
import java.util.ArrayList;
import java.util.List;

/** The findings of one check. A job decides how many there are, so only the first ones are kept. For one thread. */
final class Findings {
    private static final int MOST = 100;

    private final List<Refusal> found = new ArrayList<>();

    void add(Holder member, String reason, String remedy) {
        if (found.size() < MOST) {
            found.add(new Refusal(member.rank(), reason, remedy));
        }
    }

    List<Refusal> all() {
        return List.copyOf(found);
    }
}
