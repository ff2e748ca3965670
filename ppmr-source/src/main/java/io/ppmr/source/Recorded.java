package io.ppmr.source;

import io.ppmr.source.MigrationPlan.Leg;
import io.ppmr.transaction.PlannedRank;
import io.ppmr.transaction.TransactionRecord;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What the journal knows of a migration that an earlier run of the service has left open.
 *
 * @param job its name
 * @param attempt the last one that has begun
 * @param plan who takes which ranks in it
 * @param originals the ranks with their processes, as last recorded
 */
record Recorded(String job, int attempt, MigrationPlan plan, List<PlannedRank> originals) {

    static Recorded of(List<TransactionRecord> records) {
        String job = "";
        int attempt = 0;
        List<String> participants = List.of();
        Map<Integer, PlannedRank> ranks = new TreeMap<>();
        for (TransactionRecord record : records) {
            if (record instanceof TransactionRecord.Asked asked) {
                job = asked.job();
            } else if (record instanceof TransactionRecord.Begun begun) {
                attempt = begun.attempt();
                participants = begun.participants();
                begun.originals().forEach(rank -> ranks.put(rank.rank(), rank));
            } else if (record instanceof TransactionRecord.Sealed sealed) {
                sealed.held().forEach(rank -> ranks.put(rank.rank(), rank));
            }
        }
        List<Leg> legs = new ArrayList<>();
        for (String participant : participants) {
            legs.add(new Leg(
                    Voices.address(participant),
                    ranks.values().stream()
                            .filter(rank -> rank.participant().equals(participant))
                            .map(PlannedRank::rank)
                            .toList()));
        }
        return new Recorded(job, attempt, new MigrationPlan(legs), List.copyOf(ranks.values()));
    }

    List<Integer> ranks() {
        return originals.stream().map(PlannedRank::rank).toList();
    }
}
