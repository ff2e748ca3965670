package io.ppmr.cluster;

import io.ppmr.cli.JsonText;
import io.ppmr.cli.SocketArgument;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.cluster.JobRequests.JobRequest;
import io.ppmr.cluster.job.JobView;
import io.ppmr.cluster.job.JobView.SetView;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr job}: checkpoints and restarts of jobs over several nodes. See docs/admin/job-checkpoints.md. */
@Command(
        name = "job",
        description = {
            "Checkpoints and restarts jobs over several nodes, whose pods were run with --members.",
            "Each service of the cluster can be asked. A user sees and changes the user's own jobs."
        },
        mixinStandardHelpOptions = true)
final class ClusterJobCommand implements Runnable {
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(15);
    private static final Duration PLAN_LIMIT = Duration.ofSeconds(40);
    private static final long LOOK_NS = 200_000_000;
    private static final long MOST_LOOK_NS = 1_000_000_000;
    /** The time for another controller to become the active one. */
    private static final Duration SILENCE = Duration.ofSeconds(60);

    /** A recovery that waits longer for the same nodes needs an operator. */
    private static final Duration WAIT_LIMIT = Duration.ofSeconds(30);

    private static final long SILENT_LOOK_NS = 1_000_000_000;
    private static final double MIB = 1 << 20;

    @Spec
    private CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "no command is given");
    }

    private PrintWriter out() {
        return spec.commandLine().getOut();
    }

    @Command(name = "list", description = "Lists jobs over several nodes.", mixinStandardHelpOptions = true)
    @JsonResult(value = JobView.class, list = true)
    int list(
            @Mixin SocketArgument socket,
            @Option(names = "--json", description = "print the result as JSON") boolean json)
            throws Exception {
        List<JobView> jobs = show(socket.anyPath(), null);
        if (json) {
            JsonText.print(out(), jobs);
            return ExitCode.OK.number();
        }
        String form = "%-24s  %-10s  %-9s  %-11s  %s%n";
        out().printf(Locale.ROOT, form, "JOB", "PHASE", "MEMBERS", "INCARNATION", "NEWEST SET");
        for (JobView job : jobs) {
            out().printf(
                            Locale.ROOT,
                            form,
                            job.job(),
                            job.phase(),
                            job.registered() + "/" + job.members(),
                            job.incarnation(),
                            job.sets().isEmpty()
                                    ? "-"
                                    : job.sets().get(job.sets().size() - 1).set() + ", "
                                            + age(job.sets().get(job.sets().size() - 1)) + " ago");
        }
        out().flush();
        return ExitCode.OK.number();
    }

    private static String age(SetView set) {
        long seconds = Math.max(0, ChronoUnit.SECONDS.between(Instant.ofEpochMilli(set.takenAtMs()), Instant.now()));
        return seconds < 120 ? seconds + " s" : seconds < 7200 ? seconds / 60 + " min" : seconds / 3600 + " h";
    }

    @Command(
            name = "show",
            description = "Shows a job over several nodes: its phase, its pods and its sets.",
            mixinStandardHelpOptions = true)
    @JsonResult(JobView.class)
    int show(
            @Parameters(paramLabel = "JOB", description = "the job, JOB or UID/JOB") String job,
            @Mixin SocketArgument socket,
            @Option(names = "--watch", description = "print the job again whenever it changes, until interrupted")
                    boolean watch,
            @Option(names = "--json", description = "print the result as JSON") boolean json)
            throws Exception {
        if (json && watch) {
            throw new ParameterException(spec.commandLine(), "--watch prints text. Remedy: leave out --json");
        }
        Path path = socket.anyPath(List.of(ControllerConfig.ROLE));
        JobView found = one(path, job);
        if (json) {
            JsonText.print(out(), found);
            return ExitCode.OK.number();
        }
        print(found);
        while (watch) {
            LockSupport.parkNanos(SILENT_LOOK_NS);
            JobView now = one(path, job);
            if (!now.equals(found)) {
                found = now;
                out().println();
                print(found);
            }
        }
        return ExitCode.OK.number();
    }

    private void print(JobView found) {
        PrintWriter out = out();
        out.printf("job %s: %s, incarnation %d%n", found.job(), found.phase(), found.incarnation());
        out.printf("members: %d of %d are registered%n", found.registered(), found.members());
        new TreeMap<>(found.places()).forEach((host, pods) -> out.printf("  %s: %s%n", host, String.join(", ", pods)));
        found.moves().forEach((id, from) -> out.printf("migration %s moves pods from node %s%n", id, from));
        if (found.last().number() > 0) {
            out.printf(
                    "last %s, number %d: %s %s%n",
                    found.last().kind(),
                    found.last().number(),
                    found.last().outcome(),
                    found.last().reason());
        }
        if (found.last().restart().number() > 0) {
            out.println(RecoveryOutcome.times(found.last().restart()));
        }
        if (!found.last().waitsFor().isEmpty()) {
            out.printf(
                    "%s waits for %s%n",
                    found.phase(), String.join(", ", found.last().waitsFor()));
        }
        if (!found.schedule().every().isEmpty()) {
            out.printf(
                    "checkpoints: every %s, now each %d s%s%n",
                    found.schedule().every(),
                    found.schedule().intervalS(),
                    found.schedule().isOverdue() ? "; OVERDUE: two intervals were missed" : "");
        }
        out.println(found.sets().isEmpty() ? "sets: none" : "sets, the oldest first:");
        for (SetView set : found.sets()) {
            out.printf(
                    Locale.ROOT,
                    "  %s  %s  %.1f MiB, held %d ms, %s%n",
                    set.set(),
                    Instant.ofEpochMilli(set.takenAtMs()).truncatedTo(ChronoUnit.SECONDS),
                    set.bytes() / MIB,
                    set.heldMs(),
                    set.state());
        }
        if (!found.sets().isEmpty() && !found.schedule().survivesLoss()) {
            out.println("no set is safe: the loss of a node would end this job. Remedy: the operator writes copies ="
                    + " \"DIRECTORY\" in the pods' template, on a filesystem that all nodes share; the log of the"
                    + " active controller names what fails");
        }
        out.flush();
    }

    @Command(
            name = "checkpoint",
            description = {
                "Writes a set: the images of all pods of the job, at one moment.",
                "All pods are held until all are dumped, and then continue.",
                "The exit status is 3 if the checkpoint became void and the job continues, and 4 if it was refused."
            },
            mixinStandardHelpOptions = true)
    @JsonResult(JobOutcome.class)
    int checkpoint(
            @Parameters(paramLabel = "JOB", description = "the job, JOB or UID/JOB") String job,
            @Mixin SocketArgument socket,
            @Option(names = "--json", description = "print the result as JSON") boolean json)
            throws Exception {
        long number = order(socket.anyPath(), JobRequests.CHECKPOINT, new JobRequest(job), ANSWER_LIMIT);
        JobView ended = await(socket.anyPath(), job, "checkpoint", number);
        return print(JobOutcome.of(ended, false, number), json);
    }

    @Command(
            name = "restart",
            description = {
                "Starts a job again from a set, of which no pod runs.",
                "All pods are restored and held, and continue together. If one cannot be restored, none runs."
            },
            mixinStandardHelpOptions = true)
    @JsonResult(JobOutcome.class)
    int restart(
            @Parameters(paramLabel = "JOB", description = "the job, JOB or UID/JOB") String job,
            @Option(names = "--set", paramLabel = "SET", description = "the set (default: the newest)") String set,
            @Option(
                            names = "--on",
                            paramLabel = "NODE",
                            split = ",",
                            description = "the nodes that restore the pods (default: those where they were)")
                    List<String> on,
            @Option(
                            names = "--moved-away-is-off",
                            paramLabel = "NODE",
                            split = ",",
                            description = "a node to which pods may have been moved while no controller answered: the"
                                    + " operator confirms that no pod of the job runs there")
                    List<String> awayOff,
            @Mixin SocketArgument socket,
            @Option(names = "--json", description = "print the result as JSON") boolean json)
            throws Exception {
        long number =
                order(socket.anyPath(), JobRequests.RESTART, new JobRequest(job, set, on, awayOff, null), PLAN_LIMIT);
        JobView ended = await(socket.anyPath(), job, "restart", number);
        return print(JobOutcome.of(ended, true, number), json);
    }

    @Command(
            name = "recover",
            description = {
                "Brings a job back after the loss of nodes: all of it goes back to a set.",
                "Living nodes end their pods and restore them in place.",
                "Spare nodes restore the pods of nodes that are off.",
                "The exit status is 4 if it was refused and nothing was touched, and 5 if it has begun and waits for a"
                        + " node."
            },
            mixinStandardHelpOptions = true)
    @JsonResult(RecoveryOutcome.class)
    int recover(
            @Parameters(paramLabel = "JOB", description = "the job, JOB or UID/JOB") String job,
            @Option(names = "--set", paramLabel = "SET", description = "the set (default: the newest)") String set,
            @Option(
                            names = "--off",
                            paramLabel = "NODE",
                            split = ",",
                            description = "a node that is off, as ppmr nodes off reports it; only on the active"
                                    + " controller's node, with --config of the controller")
                    List<String> off,
            @Option(
                            names = "--moved-away-is-off",
                            paramLabel = "NODE",
                            split = ",",
                            description = "a node to which pods may have been moved while no controller answered: the"
                                    + " operator confirms that no pod of the job runs there")
                    List<String> awayOff,
            @Mixin SocketArgument socket,
            @Option(names = "--json", description = "print the result as JSON") boolean json)
            throws Exception {
        Path path = socket.anyPath(List.of(ControllerConfig.ROLE));
        long number = order(path, JobRequests.RECOVER, new JobRequest(job, set, null, awayOff, off), PLAN_LIMIT);
        Optional<JobView> ended = await(path, job, "restart", number, WAIT_LIMIT);
        RecoveryOutcome outcome = ended.isPresent()
                ? RecoveryOutcome.of(ended.get(), JobOutcome.of(ended.get(), true, number))
                : RecoveryOutcome.of(one(path, job), JobOutcome.waiting(one(path, job)));
        return print(outcome, outcome.sentence(), outcome.exitCode(), json);
    }

    @Command(
            name = "forget",
            description = {
                "Removes the record of a job of which no pod runs. Its sets can no longer be restarted.",
                "The images themselves stay in the directory of checkpoints."
            },
            mixinStandardHelpOptions = true)
    int forget(
            @Parameters(paramLabel = "JOB", description = "the job, JOB or UID/JOB") String job,
            @Mixin SocketArgument socket)
            throws Exception {
        try (ControlClient client = new ControlClient(socket.anyPath())) {
            String forgotten = client.askPart(
                    JobRequests.FORGET, new JobRequest(job), ANSWER_LIMIT, JobRequests.FORGOTTEN, String.class);
            out().println("job " + forgotten + " is forgotten");
            return ExitCode.OK.number();
        }
    }

    private static long order(Path socket, String request, JobRequest fields, Duration limit) throws Exception {
        try (ControlClient client = new ControlClient(socket)) {
            return client.askPart(request, fields, limit, JobRequests.ORDERED, Long.class);
        }
    }

    private static List<JobView> show(Path socket, String job) throws IOException, RequestException {
        try (ControlClient client = new ControlClient(socket)) {
            return List.of(client.askPart(
                    JobRequests.SHOW, new JobRequest(job), ANSWER_LIMIT, JobRequests.JOBS, JobView[].class));
        }
    }

    private static JobView one(Path socket, String job) throws IOException, RequestException {
        return show(socket, job).stream()
                .findFirst()
                .orElseThrow(() -> new RequestException(
                        "there is no job " + job + " over several nodes. Remedy: ppmr job list shows the jobs"));
    }

    /** Waits for the end of a checkpoint or restart. It has limits of its own, so it ends. */
    private static JobView await(Path socket, String job, String kind, long number)
            throws IOException, RequestException {
        return await(socket, job, kind, number, Duration.ofDays(1)).orElseThrow();
    }

    /**
     * Waits for the end of a checkpoint or restart.
     *
     * @param still for how long it may wait for the same nodes
     * @return empty if it waits for the same nodes for longer
     */
    private static Optional<JobView> await(Path socket, String job, String kind, long number, Duration still)
            throws IOException, RequestException {
        Set<String> waited = Set.of();
        long waitedNs = System.nanoTime();
        long silentNs = System.nanoTime();
        long lookNs = LOOK_NS;
        while (true) {
            JobView now;
            try {
                now = one(socket, job);
                silentNs = System.nanoTime();
            } catch (IOException | RequestException e) {
                // Another controller may become the active one.
                if (System.nanoTime() - silentNs > SILENCE.toNanos()) {
                    throw e;
                }
                LockSupport.parkNanos(SILENT_LOOK_NS);
                continue;
            }
            // A recovery that failed after pods were ended is ordered again, with a number of its own.
            boolean isOver = now.last().kind().equals(kind)
                    && now.last().number() >= number
                    && !now.phase().equals("recovering");
            if (isOver) {
                return Optional.of(now);
            }
            boolean isEnding = now.phase().equals("ending");
            if (!isEnding || !now.last().waitsFor().equals(waited)) {
                waited = now.last().waitsFor();
                waitedNs = System.nanoTime();
            } else if (System.nanoTime() - waitedNs > still.toNanos()) {
                return Optional.empty();
            }
            LockSupport.parkNanos(lookNs);
            // The service and the controller that answer have other work while the job is held.
            lookNs = Math.min(lookNs + LOOK_NS, MOST_LOOK_NS);
        }
    }

    private int print(JobOutcome outcome, boolean json) throws IOException {
        return print(outcome, outcome.sentence(), outcome.exitCode(), json);
    }

    private int print(Object outcome, String sentence, ExitCode code, boolean json) throws IOException {
        if (json) {
            JsonText.print(out(), outcome);
        } else {
            out().println(sentence);
        }
        out().flush();
        return code.number();
    }
}
