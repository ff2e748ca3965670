package io.ppmr.transaction.rules;

import io.ppmr.transaction.operator.Explanations;
import java.util.ArrayList;
import java.util.List;

/** Checks a state in which no event follows without another failure. */
final class ModelEnds {
    private ModelEnds() {}

    private static boolean halfRuns(ModelWorld world) {
        boolean runs = false;
        boolean held = false;
        for (int target = 0; target < 2; target++) {
            runs |= !world.isOff(target + 1) && world.copy[target] == ModelWorld.RUNNING;
            held |= !world.isOff(target + 1) && world.copy[target] == ModelWorld.HELD;
        }
        return runs && held;
    }

    /** Returns the reason why this end is wrong, or null. */
    static String stuck(ModelMachine machine, ModelWorld world, boolean fenceWorks) {
        List<String> unreached = new ArrayList<>();
        for (int node = 1; node <= 2; node++) {
            if (world.isOff(node)) {
                unreached.add(ModelMachine.NAMES.get(node - 1));
            }
        }
        boolean anyHeld = false;
        boolean broken = false;
        if (!world.isOff(0)) {
            CoordinatorState state = machine.coordinator(world);
            broken = state.phase() == CoordinatorState.CoordinatorPhase.BROKEN;
            if (!state.isOver()) {
                anyHeld = true;
                if (Explanations.heldAtCoordinator(state, unreached) == null) {
                    return "the source waits without a reason";
                }
            }
        }
        for (int target = 0; target < 2; target++) {
            if (world.isOff(target + 1)) {
                continue;
            }
            ParticipantState state = machine.participant(world, target);
            if (!state.done()) {
                anyHeld = true;
                if (!broken && Explanations.heldAtParticipant(state, "s", fenceWorks) == null) {
                    // This target waits for a voter that is off. The source reports that.
                    if (world.isOff(0) || machine.coordinator(world).isOver()) {
                        return "a target waits without a reason";
                    }
                }
            }
        }
        if (halfRuns(world)) {
            return "a copy runs, and another stays held though its node is there";
        }
        if (anyHeld && world.off == 0 && !broken) {
            return "something stays held though every node is there";
        }
        return null;
    }
}
