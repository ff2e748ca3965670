package io.ppmr.bench;

import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** The commands that measure one stage, or all of them together, beside its limit. */
final class StageCommands {
    private static final String STAYS = "none of its bytes cross the network";

    private StageCommands() {}

    /** What they have in common. */
    abstract static class StageCommand implements Callable<Integer> {
        @Spec
        CommandSpec spec;

        @Mixin
        StageOptions options;

        /** Sets the stage up. */
        abstract Stage stage() throws Exception;

        /** Why RDMA would change nothing of it; null for a stage that crosses the network. */
        String whyTcpAlone() {
            return null;
        }

        @Override
        public Integer call() throws Exception {
            options.requireSense(spec.name(), whyTcpAlone());
            PrintWriter out = spec.commandLine().getOut();
            Result result;
            try (Stage stage = stage()) {
                Machine machine = Machine.here(options.carrier().device());
                result = new Measurement(out, options).measure(spec.name(), stage, machine);
            }
            if (options.json != null) {
                result.write(options.json);
            }
            return 0;
        }
    }

    @Command(
            name = "aggregation",
            description = "FUSE writes of N processes into the source's pool; full chunks are thrown away (Fig. 7)",
            mixinStandardHelpOptions = true)
    static final class Aggregation extends StageCommand {
        @Override
        Stage stage() throws Exception {
            return new AggregationStage(options);
        }

        @Override
        String whyTcpAlone() {
            return STAYS;
        }
    }

    @Command(
            name = "transfer",
            description = "pool to pool, N threads offering chunks, thrown away on arrival (Fig. 8a)",
            mixinStandardHelpOptions = true)
    static final class Transfer extends StageCommand {
        @Override
        Stage stage() throws Exception {
            return new TransferStage(options);
        }
    }

    @Command(
            name = "pipeline",
            description = "FUSE writes at the source to chunks in the target's pool (Fig. 8b, 8c)",
            mixinStandardHelpOptions = true)
    static final class Pipeline extends StageCommand {
        @Option(
                names = "--against-pool",
                paramLabel = "SIZE",
                defaultValue = "0",
                description = "measure a second pair of services with pools of this size in turn (default: none)")
        private String otherPool;

        @Override
        Stage stage() throws Exception {
            return new PipelineStage(options, otherPool.equals("0") ? 0 : new StageOptions.Size().convert(otherPool));
        }
    }

    @Command(
            name = "restart",
            description = "FUSE reads of N processes at the target out of arrived chunks",
            mixinStandardHelpOptions = true)
    static final class Restart extends StageCommand {
        @Override
        Stage stage() throws Exception {
            return new RestartStage(options);
        }

        @Override
        String whyTcpAlone() {
            return STAYS;
        }
    }

    @Command(
            name = "whole",
            description = "N processes write, N others read what comes out, at once",
            mixinStandardHelpOptions = true)
    static final class Whole extends StageCommand {
        @Override
        Stage stage() throws Exception {
            return new WholeStage(options);
        }
    }
}
