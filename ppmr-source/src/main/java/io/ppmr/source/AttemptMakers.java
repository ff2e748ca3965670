package io.ppmr.source;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.doctor.JobProbe;
import io.ppmr.doctor.NodeProbe;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.JobFacts;
import io.ppmr.protocol.NodeFacts;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.keep.Keeping;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.transport.TransportChoice;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Makes a migration's attempts out of what the service has: pool, view and transports. Immutable, for any thread. */
record AttemptMakers(
        SourceSettings settings,
        BufferPool pool,
        FairClaims claims,
        OutgoingImageView view,
        SourceHops hops,
        TransportChoice transports,
        NodeProbe node) {

    /** That of one migration: every attempt has a session for each leg of its plan, not yet begun. */
    SourceDuties.AttemptMaker of(
            String id,
            Job job,
            Map<Integer, JobFacts> facts,
            MigrationRecord record,
            OriginalRanks originals,
            Keeping keeping) {
        return (number, plan) -> {
            NodeFacts here = node.facts();
            List<SourceSession> sessions = new ArrayList<>();
            for (int place = 0; place < plan.legs().size(); place++) {
                sessions.add(new SourceSession(
                        settings,
                        pool,
                        claims,
                        view,
                        hops,
                        plan,
                        place,
                        transports,
                        new ControlMessage.Introduce(
                                here,
                                JobProbe.together(facts, plan.legs().get(place).ranks())),
                        id,
                        number,
                        keeping));
            }
            return new Attempt(
                    number,
                    job,
                    plan,
                    sessions,
                    settings,
                    record,
                    originals,
                    settings.workDirectory().resolve(id + "." + number),
                    keeping);
        };
    }
}
