package io.ppmr.cli;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.config.TargetConfig;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.keep.HeldRestart;
import io.ppmr.migration.keep.ImageManifest;
import io.ppmr.migration.keep.KeptImages;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr restart DIR}: restarts on this node what a migration has kept there. */
@JsonResult(value = RestartCommand.RestartedRank.class, list = true)
@Command(
        name = "restart",
        description = {
            "Restarts on this node a job from a checkpoint that a migration has kept (ppmr migrate --keep, or keep in"
                    + " the job's section).",
            "A kept pod is refused: run pods with --members, and use ppmr job checkpoint and ppmr job restart.",
            "Make sure that the job does not run on any other node. The command checks this node only."
        },
        mixinStandardHelpOptions = true)
public final class RestartCommand implements Callable<Integer> {
    private static final Duration REACH_LIMIT = Duration.ofSeconds(20);
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(100);

    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "DIR", description = "the kept checkpoint, as the migration's report names it")
    private Path directory;

    @Option(
            names = {"-c", "--config"},
            paramLabel = "FILE",
            defaultValue = "${env:PPMR_CONFIG:-/etc/ppmr/target.toml}",
            description = "this node's target configuration (default: PPMR_CONFIG, or /etc/ppmr/target.toml)")
    private Path config;

    @Option(
            names = "--key-file",
            paramLabel = "FILE",
            description = "the key that was in use when the checkpoint was kept, if this node has another one now")
    private Path keyFile;

    @Option(
            names = "--without-digest",
            description = "restart a checkpoint without a keyed digest; then nothing proves that ppmr has made it")
    private boolean withoutDigest;

    @Option(
            names = "--wait",
            negatable = true,
            defaultValue = "false",
            fallbackValue = "true",
            description = "wait for the end of the restarted processes; without it the command returns when they run")
    private boolean wait;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    /** A restarted rank as it is shown. */
    record RestartedRank(int rank, List<Integer> pids) {}

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        if (!Files.exists(directory)) {
            throw new CommandFailure(ExitCode.USAGE, directory + " does not exist. Remedy: correct the path");
        }
        KeptImages images = KeptImages.open(directory);
        ImageManifest manifest = images.manifest();
        TargetSettings settings = TargetConfig.load(config).settings();
        images.requireSealed(keyFile == null ? settings.authenticator() : PreSharedKey.load(keyFile), withoutDigest);
        Checkpointer checkpointer = checkpointer(manifest, settings);
        images.requireOwners(checkpointer.imageOwner(manifest.user()));
        images.requireNoPod();
        images.requireNoneAlive(new ProcessTable());
        images.requireWhole();
        WorkDirectories.prepare(settings.node().workDirectory());
        requireReach(images, settings);
        OutputOptions.note(
                spec,
                "ppmr: job " + manifest.job() + " as it was on " + manifest.node() + " at "
                        + Instant.ofEpochMilli(manifest.writtenEpochMs()) + " (migration " + manifest.migrationId()
                        + ") is restarted here. If it also runs on another node, it computes twice: only this node"
                        + " was checked.");
        List<HeldRank> ranks = restart(images, checkpointer, settings);
        List<RestartedRank> shown = ranks.stream()
                .map(rank -> new RestartedRank(
                        rank.rank(),
                        rank.processes().stream().map(ProcessIdentity::pid).toList()))
                .toList();
        if (json) {
            JsonText.print(out, shown);
        } else {
            shown.forEach(rank -> out.println("rank " + rank.rank() + " runs as PID "
                    + rank.pids().stream().map(String::valueOf).collect(Collectors.joining(", "))));
        }
        out.flush();
        if (wait) {
            awaitEnd(ranks);
            OutputOptions.note(spec, "all have ended");
        }
        return ExitCode.OK.number();
    }

    private Checkpointer checkpointer(ImageManifest manifest, TargetSettings settings) throws CommandFailure {
        if (manifest.user().uid() == 0 && !settings.rules().allowRootJobs()) {
            throw new CommandFailure(
                    ExitCode.REFUSED,
                    "its processes belong to root, and this node restores none of root's. Remedy: allow_root_jobs ="
                            + " true");
        }
        Optional<Checkpointer> found = settings.tools().checkpointers().stream()
                .filter(one -> one.name().equals(manifest.checkpointer()))
                .findFirst();
        if (found.isEmpty()) {
            throw new CommandFailure(
                    ExitCode.REFUSED,
                    "the checkpoint was written by [checkpointers." + manifest.checkpointer()
                            + "]. Remedy: add that section to " + config);
        }
        Availability there = found.get().probe();
        if (!there.available()) {
            throw new CommandFailure(
                    ExitCode.REFUSED, manifest.checkpointer() + ": " + there.detail() + " (" + there.remedy() + ")");
        }
        return found.get();
    }

    /** A restart that runs as the job's user must get to its image. */
    private static void requireReach(KeptImages images, TargetSettings settings) throws IOException, CommandFailure {
        ImageManifest manifest = images.manifest();
        for (int rank : manifest.originals().keySet()) {
            Path image = images.rank(rank);
            if (!Files.getAttribute(image, "unix:uid", LinkOption.NOFOLLOW_LINKS)
                    .equals(manifest.user().uid())) {
                continue;
            }
            Path work = settings.node().workDirectory().toAbsolutePath().resolve("reach-" + UUID.randomUUID());
            try {
                new SiteCommand(
                                "reach",
                                List.of("test", "-x", image.toString()),
                                Optional.of(manifest.user()),
                                REACH_LIMIT)
                        .run(Map.of(), work, NativePrograms.fromSystemProperty());
            } catch (CheckpointException e) {
                throw new CommandFailure(
                        ExitCode.REFUSED,
                        "user " + manifest.user().uid() + ", whose job it is, cannot get to " + image
                                + ": let others pass through the directories above it (chmod o+x)",
                        e);
            } finally {
                WorkDirectories.remove(work);
            }
        }
    }

    private List<HeldRank> restart(KeptImages images, Checkpointer checkpointer, TargetSettings settings)
            throws IOException, CheckpointException, InterruptedException {
        Path work = settings.node().workDirectory().toAbsolutePath().resolve("restart-" + UUID.randomUUID());
        try (HeldRestart restart = new HeldRestart(work)) {
            Runtime.getRuntime().addShutdownHook(new Thread(restart::close, "restart-end"));
            restart.start(images, checkpointer, settings.rules().restartDeadline());
            restart.awaitHeld();
            note(images, restart);
            restart.release();
            return restart.ranks();
        }
    }

    /** A copy may be in a directory that is not writable. */
    private void note(KeptImages images, HeldRestart restart) {
        try {
            images.noteRestarted(restart.processes());
        } catch (IOException e) {
            spec.commandLine()
                    .getErr()
                    .println("ppmr: a second restart from this copy will not notice this one: " + e.getMessage());
        }
    }

    private static void awaitEnd(List<HeldRank> ranks) throws InterruptedException {
        ProcessTable table = new ProcessTable();
        List<ProcessIdentity> all =
                ranks.stream().flatMap(rank -> rank.processes().stream()).toList();
        while (all.stream().anyMatch(table::isAlive)) {
            LockSupport.parkNanos(LOOK_NS);
            if (Thread.interrupted()) {
                throw new InterruptedException("interrupted while the restarted processes run on");
            }
        }
    }
}
