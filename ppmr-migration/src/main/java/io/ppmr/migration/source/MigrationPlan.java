package io.ppmr.migration.source;

import io.ppmr.checkpoint.RankMap;
import io.ppmr.linux.HostPort;
import io.ppmr.transaction.journal.PlannedRank;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The ranks that each target receives. The participants' order is part of the plan. If the source is lost, the first
 * one must find out the decision.
 */
public record MigrationPlan(List<Leg> legs) {

    /** The ranks that one target receives. */
    public record Leg(InetSocketAddress target, List<Integer> ranks) {
        public Leg {
            ranks = List.copyOf(ranks);
            if (ranks.isEmpty()) {
                throw new IllegalArgumentException("target " + HostPort.participant(target) + " receives no rank");
            }
        }

        /** Returns the target's address in the form of the protocol and the journal. */
        public String address() {
            return HostPort.participant(target);
        }
    }

    public MigrationPlan {
        legs = List.copyOf(legs);
        if (legs.isEmpty()) {
            throw new IllegalArgumentException("a plan needs a target");
        }
    }

    /**
     * Spreads the ranks over the targets. Neighbouring ranks stay together, and no target gets more than one rank more
     * than another.
     */
    public static MigrationPlan spread(List<Integer> ranks, List<InetSocketAddress> targets) {
        int count = Math.min(targets.size(), ranks.size());
        List<Leg> legs = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int from = i * ranks.size() / count;
            legs.add(new Leg(targets.get(i), ranks.subList(from, (i + 1) * ranks.size() / count)));
        }
        return new MigrationPlan(legs);
    }

    /** Returns the plan of the journal's records. */
    static MigrationPlan recorded(List<String> participants, List<PlannedRank> ranks) {
        List<Leg> legs = new ArrayList<>();
        for (String participant : participants) {
            legs.add(new Leg(
                    HostPort.ofParticipant(participant).lookUp(),
                    ranks.stream()
                            .filter(rank -> rank.participant().equals(participant))
                            .map(PlannedRank::rank)
                            .toList()));
        }
        return new MigrationPlan(legs);
    }

    /** Returns all participants' addresses, in their order. */
    public List<String> addresses() {
        return legs.stream().map(Leg::address).toList();
    }

    /** Returns the node of every rank when the plan is carried out. */
    public RankMap map(Map<Integer, String> others) {
        Map<Integer, String> nodes = new TreeMap<>(others);
        legs.forEach(
                leg -> leg.ranks().forEach(rank -> nodes.put(rank, leg.target().getHostString())));
        return new RankMap(nodes);
    }

    /** Returns the place of the participant that receives a rank. */
    public int placeOf(int rank) {
        for (int place = 0; place < legs.size(); place++) {
            if (legs.get(place).ranks().contains(rank)) {
                return place;
            }
        }
        throw new IllegalArgumentException("rank " + rank + " is not in the plan");
    }

    /** Returns the plan with one target replaced. */
    public MigrationPlan replaced(int place, InetSocketAddress spare) {
        List<Leg> changed = new ArrayList<>(legs);
        changed.set(place, new Leg(spare, legs.get(place).ranks()));
        return new MigrationPlan(changed);
    }
}
