package io.ppmr.cli;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.daemon.config.TargetConfig;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.keep.HeldRestart;
import io.ppmr.migration.keep.ImageManifest;
import io.ppmr.migration.keep.KeptImages;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.os.ProcessIdentity;
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
@Command(
        name = "restart",
        description = {
            "Restarts on this node the ranks of a copy that a migration has kept (`ppmr migrate --keep`, or keep in the"
                    + " job's table).",
            "A copy of a pod is refused: pods cannot be restarted from a copy yet.",
            "Make sure that the same computation runs nowhere else: only this node is looked" + " at."
        },
        mixinStandardHelpOptions = true)
public final class RestartCommand implements Callable<Integer> {
    private static final Duration REACH_LIMIT = Duration.ofSeconds(20);
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(100);

    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "DIR", description = "the copy, as the migration's report names it")
    private Path directory;

    @Option(
            names = "--config",
            paramLabel = "FILE",
            defaultValue = "/etc/ppmr/target.toml",
            description = "this node's target configuration: checkpointers, work directory (default: ${DEFAULT-VALUE})")
    private Path config;

    @Option(
            names = "--key-file",
            paramLabel = "FILE",
            description = "the key that the copy was made with, where this node has another one by now")
    private Path keyFile;

    @Option(
            names = "--without-digest",
            description =
                    "restart a copy that has no keyed digest, as releases before 0.1 kept them: nothing then shows"
                            + " that ppmr has made it")
    private boolean withoutDigest;

    @Option(names = "--wait", description = "return when the restarted processes have ended")
    private boolean wait;

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
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
        spec.commandLine()
                .getErr()
                .println("ppmr: job " + manifest.job() + " as it was on " + manifest.node() + " at "
                        + Instant.ofEpochMilli(manifest.writtenEpochMs()) + " (migration " + manifest.migrationId()
                        + ") is restarted here. If it also runs elsewhere, as its originals or as moved, then"
                        + " it computes twice: only this node was looked at, the rest is for you to know.");
        List<HeldRank> ranks = restart(images, checkpointer, settings);
        for (HeldRank rank : ranks) {
            out.println("rank " + rank.rank() + " runs as PID "
                    + rank.processes().stream()
                            .map(process -> String.valueOf(process.pid()))
                            .collect(Collectors.joining(", ")));
        }
        out.flush();
        if (wait) {
            awaitEnd(ranks);
            out.println("all have ended");
        }
        return ExitCode.OK.number();
    }

    private static Checkpointer checkpointer(ImageManifest manifest, TargetSettings settings) throws CommandFailure {
        if (manifest.user().uid() == 0 && !settings.rules().allowRootJobs()) {
            throw new CommandFailure(
                    ExitCode.REFUSED,
                    "its processes belong to root, and this node restores none of root's (allow_root_jobs)");
        }
        Optional<Checkpointer> found = settings.tools().checkpointers().stream()
                .filter(one -> one.name().equals(manifest.checkpointer()))
                .findFirst();
        if (found.isEmpty()) {
            throw new CommandFailure(
                    ExitCode.REFUSED,
                    "the copy was written by [checkpointers." + manifest.checkpointer()
                            + "], which this configuration does not have");
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

    /** A copy may lie where nothing can be written. */
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
