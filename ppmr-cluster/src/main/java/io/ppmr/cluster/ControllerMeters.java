package io.ppmr.cluster;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.cluster.controller.Controller;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.record.NodeStatus;

/** The meters of a controller. */
final class ControllerMeters {
    private ControllerMeters() {}

    /**
     * Registers them.
     *
     * @param controller has their values; null to register names and descriptions only
     */
    static void register(MeterRegistry meters, Controller controller) {
        for (NodeStatus state : NodeStatus.values()) {
            Gauge.builder("ppmr.controller.nodes", controller, one -> one.counts()
                            .getOrDefault(state, 0))
                    .description("Nodes of the cluster in this state.")
                    .tag("state", state.word())
                    .register(meters);
        }
        for (RoundOutcome outcome : RoundOutcome.values()) {
            if (outcome != RoundOutcome.NONE) {
                FunctionCounter.builder(
                                "ppmr.job.rounds", controller, one -> one.jobs().count(outcome))
                        .description("Checkpoints and restarts of jobs over several nodes that ended so.")
                        .tag("outcome", outcome.word())
                        .register(meters);
            }
        }
        FunctionCounter.builder(
                        "ppmr.job.held.seconds", controller, one -> one.jobs().heldSeconds())
                .description("Seconds for which checkpoints have held jobs over several nodes.")
                .register(meters);
        Gauge.builder("ppmr.job.set.age.seconds", controller, one -> one.jobs().oldestSetSeconds())
                .description("The greatest age of the newest set of a job that is checkpointed regularly.")
                .register(meters);
        Gauge.builder("ppmr.job.checkpoints.overdue", controller, one -> one.jobs()
                        .overdue())
                .description("Jobs over several nodes that have missed two regular checkpoints.")
                .register(meters);
        Gauge.builder("ppmr.job.standing", controller, one -> one.jobs().standingStill())
                .description("Jobs over several nodes that are stopped after the loss of a node.")
                .register(meters);
        Gauge.builder("ppmr.controller.active", controller, one -> one.isActive() ? 1 : 0)
                .description("1 if this is the active controller.")
                .register(meters);
    }
}
