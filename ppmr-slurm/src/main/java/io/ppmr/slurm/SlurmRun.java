package io.ppmr.slurm;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The ranks of a job from their start to their end, on any node. It has one step with the ranks, and one step that
 * watches the moved ranks.
 */
public final class SlurmRun extends JobRun {
    /** The user's options. See {@code ppmr slurm-run --help}. */
    public record SlurmOptions(
            String checkpointer, String output, String error, Path announcements, int unknownExit, List<String> srun) {
        public SlurmOptions {
            srun = List.copyOf(srun);
        }
    }

    private final SlurmOptions options;
    private final Path task;
    private final Map<Integer, RankLine.RankStarted> running = new TreeMap<>();
    private final Map<String, List<RankLine.Moved>> toBeKept = new HashMap<>();
    private final Set<String> left = new TreeSet<>();
    private JobStep ranks;
    private int started;
    private int status;
    private boolean stopping;

    /** @param task the path of ppmr-slurm-task */
    public SlurmRun(RunContext setting, SlurmOptions options, Path task) {
        super(setting, "rank");
        this.options = options;
        this.task = task;
    }

    /** Runs the job. Returns the highest exit status of a rank. */
    @Override
    public int run() throws IOException, InterruptedException {
        ranks = begin(JobStep.start("the ranks", ranksCommand(), events));
        awaitSteps();
        print("all ranks have ended; exit status " + status);
        return status;
    }

    @Override
    void end() {
        print("received a signal to end: the ranks are ended");
        stopping = true;
        steps.forEach(JobStep::stop);
    }

    @Override
    boolean onOutput(JobStep step, String text) throws IOException, InterruptedException {
        Optional<RankLine> line = RankLine.parse(text);
        if (line.isPresent()) {
            onOutput(line.get());
        }
        return line.isPresent();
    }

    private void onOutput(RankLine line) throws IOException, InterruptedException {
        if (line instanceof RankLine.RankStarted rank) {
            running.put(rank.rank(), rank);
            started++;
            if (started == allocation.tasks()) {
                print(started + " ranks run on " + String.join(", ", allocation.computing()) + "; spare is "
                        + String.join(", ", allocation.spares()));
                moveOnTrigger();
            }
        } else if (line instanceof RankLine.Moved moved) {
            RankLine.RankStarted before = running.remove(moved.rank());
            String node = before == null ? "" : before.node();
            toBeKept.computeIfAbsent(node, any -> new ArrayList<>()).add(moved);
            if (running.values().stream().noneMatch(rank -> rank.node().equals(node))) {
                keep(node);
            }
        } else if (line instanceof RankLine.RankEnded ended) {
            running.remove(ended.rank());
            print("rank " + ended.rank() + " has ended with status " + ended.status()
                    + (ended.known() ? "" : ", which stands for \"not known\""));
        }
    }

    /** Starts the step that watches the ranks of a node on the spare, after all of them moved. */
    private void keep(String node) throws IOException, InterruptedException {
        List<RankLine.Moved> moved = toBeKept.remove(node);
        String address = moved.get(0).address();
        Optional<String> spare = slurm.nodeAt(address, allocation.spares());
        if (!node.isEmpty()) {
            left.add(node);
        }
        if (spare.isEmpty()) {
            status = Math.max(status, 1);
            print("the ranks of " + node + " run at " + address
                    + ", which is no spare of this job: they are not watched."
                    + " Remedy: have the source's target be one of the job's nodes");
            return;
        }
        print(moved.size() + " ranks have moved from " + node + " to " + spare.get());
        begin(JobStep.start("the watch over the ranks from " + node, keepCommand(spare.get(), moved), events));
    }

    @Override
    void ended(JobStep step, String emptied, int exit) throws IOException, InterruptedException {
        if (emptied == null) {
            if (exit != 0) {
                print(step.what() + " ended with status " + exit);
            }
            status = Math.max(status, exit);
        }
        if (step.equals(ranks)) {
            running.clear();
            for (String from : List.copyOf(toBeKept.keySet())) {
                keep(from);
            }
        }
        if (ranks.isOver() && migrations.isEmpty()) {
            giveBack();
        }
    }

    @Override
    boolean isUnderWay() {
        return started >= allocation.tasks() && !stopping;
    }

    @Override
    List<String> inhabited() {
        return running.values().stream()
                .map(RankLine.RankStarted::node)
                .distinct()
                .sorted()
                .toList();
    }

    @Override
    List<String> order(String node) {
        return running.values().stream()
                .filter(rank -> rank.node().equals(node))
                .map(RankLine.RankStarted::job)
                .limit(1)
                .toList();
    }

    /** Releases the nodes that are set to drain, when no step of this run is left on the nodes with ranks. */
    private void giveBack() throws InterruptedException {
        List<String> drained =
                setting.giveBack() && !stopping ? slurm.going(List.copyOf(left), this::print) : List.of();
        left.clear();
        if (drained.isEmpty()) {
            return;
        }
        List<String> kept = new ArrayList<>(allocation.spares());
        allocation.computing().stream().filter(node -> !drained.contains(node)).forEach(kept::add);
        slurm.giveBack(allocation.job(), kept, String.join(", ", drained), this::print);
    }

    /**
     * Starts the ranks. Unless the user's options differ, the step continues when a node fails (--no-kill). It also
     * continues when a task ends before the others (--wait=0), or exits with a status other than 0.
     */
    private List<String> ranksCommand() {
        List<String> words = Command.words(
                "srun --export=ALL --input=none --no-kill --wait=0 --kill-on-bad-exit=0 --nodes=%s --ntasks=%s"
                        + " --nodelist=%s",
                allocation.computing().size(), allocation.tasks(), String.join(",", allocation.computing()));
        words.addAll(options.srun());
        words.addAll(Command.words(
                "%s run --announce %s --socket %s --checkpointer %s --output %s",
                task, options.announcements(), setting.socket(), options.checkpointer(), options.output()));
        if (options.error() != null) {
            words.addAll(List.of("--error", options.error()));
        }
        for (String spare : setting.targets()) {
            words.addAll(List.of("--spare", spare));
        }
        words.add("--");
        words.addAll(setting.program());
        return words;
    }

    /** Watches ranks that moved to a node, with a task for each. */
    private List<String> keepCommand(String node, List<RankLine.Moved> ranks) {
        List<String> words = JobStep.beside(node, ranks.size());
        words.add("--input=none");
        words.addAll(List.of(task.toString(), "keep", "--unknown-exit", Integer.toString(options.unknownExit())));
        for (RankLine.Moved rank : ranks) {
            words.add(rank.rank() + ":"
                    + String.join(",", rank.pids().stream().map(String::valueOf).toList()));
        }
        return words;
    }

    /**
     * The nodes of the allocation, and their use. It is immutable.
     *
     * @param job the number of the job
     * @param spares the nodes that start without a rank: the batch host first
     * @param computing the other nodes
     * @param tasks the number of ranks
     */
    public record Allocation(String job, List<String> spares, List<String> computing, int tasks) {
        public Allocation {
            spares = List.copyOf(spares);
            computing = List.copyOf(computing);
        }

        /**
         * Splits the allocation.
         *
         * @param nodes all its nodes, the batch host first
         * @param wantedTasks the number of ranks, or null for the job's own number of tasks on each node
         * @param environment Slurm's environment of the batch script
         */
        public static Allocation of(
                String job, List<String> nodes, int spares, Integer wantedTasks, Map<String, String> environment)
                throws CommandFailure {
            if (spares < 1 || nodes.size() <= spares) {
                throw new CommandFailure(
                        ExitCode.USAGE,
                        "the job has " + nodes.size() + " nodes, of which " + spares
                                + " must be spare: request one node"
                                + " more than the ranks need (sbatch --nodes), and give --spares of at least 1");
            }
            List<String> computing = nodes.subList(spares, nodes.size());
            String perNode = environment.getOrDefault("SLURM_NTASKS_PER_NODE", "");
            if (wantedTasks == null && !perNode.matches("[1-9]\\d{0,5}")) {
                throw new CommandFailure(
                        ExitCode.USAGE,
                        "how many ranks? Give --ntasks, or request the job with sbatch --ntasks-per-node");
            }
            int tasks = wantedTasks == null ? Integer.parseInt(perNode) * computing.size() : wantedTasks;
            if (tasks < computing.size()) {
                throw new CommandFailure(
                        ExitCode.USAGE,
                        tasks + " ranks do not fill the " + computing.size()
                                + " nodes that are no spare: raise --spares");
            }
            return new Allocation(job, nodes.subList(0, spares), computing, tasks);
        }
    }

    /**
     * A message of {@code ppmr-slurm-task} about its rank, a line each on the standard output of srun. See its source.
     */
    sealed interface RankLine {
        /** The form of the lines. */
        Pattern WORDS = Pattern.compile("ppmr-rank (\\d{1,9}) ([a-z]+)(| .*)");

        /** The rank's number in the step. */
        int rank();

        /** The rank runs. */
        record RankStarted(int rank, String job, String node) implements RankLine {}

        /** The original is gone, and the copy continues at that address. */
        record Moved(int rank, String address, List<Integer> pids) implements RankLine {
            public Moved {
                pids = List.copyOf(pids);
            }
        }

        /** A step watches the moved rank. */
        record RankKept(int rank) implements RankLine {}

        /** The rank ended. {@code known} is true if the status is its own. */
        record RankEnded(int rank, int status, boolean known) implements RankLine {}

        /** Parses a line, or empty if srun or another program wrote it. */
        static Optional<RankLine> parse(String line) {
            Matcher words = WORDS.matcher(line);
            if (!words.matches()) {
                return Optional.empty();
            }
            int rank = Integer.parseInt(words.group(1));
            List<String> rest = List.of(words.group(3).strip().split(" ", -1));
            try {
                return switch (words.group(2)) {
                    case "started" -> Optional.of(new RankStarted(rank, rest.get(0), rest.get(1)));
                    case "moved" -> Optional.of(new Moved(rank, rest.get(0), pids(rest.get(1))));
                    case "kept" -> Optional.of(new RankKept(rank));
                    case "ended" -> Optional.of(new RankEnded(rank, Integer.parseInt(rest.get(0)), true));
                    case "unknown" -> Optional.of(new RankEnded(rank, Integer.parseInt(rest.get(0)), false));
                    default -> Optional.empty();
                };
            } catch (IndexOutOfBoundsException | NumberFormatException e) {
                return Optional.empty();
            }
        }

        private static List<Integer> pids(String text) {
            return Arrays.stream(text.split(",", -1)).map(Integer::valueOf).toList();
        }
    }
}
