package io.ppmr.daemon.slurm;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.daemon.slurm.Step.Event;
import io.ppmr.os.Command;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A job's ranks from their start to their end, wherever that is: the step with the ranks, the order to move those of a
 * node, and the step that watches the moved ones. One thread runs it; {@link #trigger} and {@link #stop} are for any.
 */
public final class SlurmRun {
    /** After a migration that failed, a draining node is left alone for so long. */
    private static final Duration PAUSE = Duration.ofSeconds(60);

    private static final long NO_CHECK_S = 3600;

    /**
     * What the user chose; see {@code ppmr slurm-run --help}.
     *
     * @param spares where the targets of the job's own spare nodes listen
     * @param drainCheck how often the controller is asked about the nodes; 0 for never
     * @param giveBack whether a drained node that the job has left is taken out of the allocation
     */
    public record Options(
            String checkpointer,
            List<String> spares,
            String output,
            String error,
            Path announcements,
            Path socket,
            int unknownExit,
            List<String> srun,
            List<String> program,
            Duration drainCheck,
            boolean giveBack) {
        public Options {
            spares = List.copyOf(spares);
            srun = List.copyOf(srun);
            program = List.copyOf(program);
        }
    }

    private final Allocation allocation;
    private final Options options;
    private final Path task;
    private final JavaCommand java;
    private final Scontrol slurm = new Scontrol();
    private final PrintWriter err;
    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final Map<Integer, RankLine.Started> running = new TreeMap<>();
    private final Map<String, List<RankLine.Moved>> toBeKept = new HashMap<>();
    private final Map<String, Step> migrations = new HashMap<>();
    private final Map<String, Long> notBeforeNs = new HashMap<>();
    private final Set<Step> steps = new LinkedHashSet<>();
    private final Set<String> left = new TreeSet<>();
    private Step ranks;
    private int started;
    private int status;
    private boolean triggered;
    private boolean stopping;
    private long nextLookNs = System.nanoTime();

    /**
     * @param task ppmr-slurm-task
     * @param java how a further ppmr is started
     * @param err what happens is told there
     */
    public SlurmRun(Allocation allocation, Options options, Path task, JavaCommand java, PrintWriter err) {
        this.allocation = allocation;
        this.options = options;
        this.task = task;
        this.java = java;
        this.err = err;
    }

    /** Has the ranks of the node that is going moved. */
    public void trigger() {
        events.add(new Event.Trigger());
    }

    /** Ends all steps. */
    public void stop() {
        events.add(new Event.Stop());
    }

    /** Runs the job; gives the highest exit status of a rank. */
    public int run() throws IOException, InterruptedException {
        ranks = start("the ranks", ranksCommand());
        while (!steps.isEmpty()) {
            Event event = events.poll(waitNs(), TimeUnit.NANOSECONDS);
            if (event != null) {
                handle(event);
            }
            look();
        }
        say("all ranks have ended; exit status " + status);
        return status;
    }

    private Step start(String what, List<String> words) throws IOException {
        Step step = Step.start(what, words, events);
        steps.add(step);
        return step;
    }

    private long waitNs() {
        return options.drainCheck().isZero()
                ? TimeUnit.SECONDS.toNanos(NO_CHECK_S)
                : Math.max(1, nextLookNs - System.nanoTime());
    }

    private void handle(Event event) throws IOException, InterruptedException {
        if (event instanceof Event.Said said) {
            Optional<RankLine> line = RankLine.parse(said.line());
            if (line.isPresent()) {
                handle(line.get());
            } else {
                err.println(said.line());
            }
        } else if (event instanceof Event.Ended ended) {
            ended(ended.step(), ended.status());
        } else if (event instanceof Event.Trigger) {
            say("SIGUSR2");
            triggered = true;
            moveOnTrigger();
        } else {
            say("told to end: the ranks are ended");
            stopping = true;
            steps.forEach(Step::stop);
        }
    }

    private void handle(RankLine line) throws IOException, InterruptedException {
        if (line instanceof RankLine.Started rank) {
            running.put(rank.rank(), rank);
            started++;
            if (started == allocation.tasks()) {
                say(started + " ranks run on " + String.join(", ", allocation.computing()) + "; spare is "
                        + String.join(", ", allocation.spares()));
                moveOnTrigger();
            }
        } else if (line instanceof RankLine.Moved moved) {
            RankLine.Started before = running.remove(moved.rank());
            String node = before == null ? "" : before.node();
            toBeKept.computeIfAbsent(node, any -> new ArrayList<>()).add(moved);
            if (running.values().stream().noneMatch(rank -> rank.node().equals(node))) {
                keep(node);
            }
        } else if (line instanceof RankLine.Ended ended) {
            running.remove(ended.rank());
            say("rank " + ended.rank() + " has ended with status " + ended.status()
                    + (ended.known() ? "" : ", which stands for \"not known\""));
        }
    }

    /** All ranks of a node have gone: the step that watches them on the spare takes over. */
    private void keep(String node) throws IOException, InterruptedException {
        List<RankLine.Moved> moved = toBeKept.remove(node);
        String address = moved.get(0).address();
        Optional<String> spare = slurm.nodeAt(address, allocation.spares());
        if (!node.isEmpty()) {
            left.add(node);
        }
        if (spare.isEmpty()) {
            status = Math.max(status, 1);
            say("the ranks of " + node + " run at " + address + ", which is no spare of this job: nobody watches them."
                    + " Remedy: have the source's target be one of the job's nodes");
            return;
        }
        say(moved.size() + " ranks have moved from " + node + " to " + spare.get());
        start("the watch over the ranks from " + node, keepCommand(spare.get(), moved));
    }

    private void ended(Step step, int exit) throws IOException, InterruptedException {
        step.markOver();
        steps.remove(step);
        String node = nodeOf(step);
        if (node == null) {
            if (exit != 0) {
                say(step.what() + " ended with status " + exit);
            }
            status = Math.max(status, exit);
        } else {
            migrations.remove(node);
            if (exit != 0) {
                notBeforeNs.put(node, System.nanoTime() + PAUSE.toNanos());
                say("the ranks on " + node + " were not moved (ppmr migrate ended with " + exit
                        + "; docs/operations.md says what it means)");
            }
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

    private String nodeOf(Step migration) {
        return migrations.entrySet().stream()
                .filter(entry -> entry.getValue().equals(migration))
                .map(Map.Entry::getKey)
                .findFirst()
                .orElse(null);
    }

    /** The nodes that have ranks now. */
    private List<String> inhabited() {
        return running.values().stream()
                .map(RankLine.Started::node)
                .distinct()
                .sorted()
                .toList();
    }

    private void moveOnTrigger() throws IOException, InterruptedException {
        if (!triggered || started < allocation.tasks() || stopping) {
            return;
        }
        triggered = false;
        for (String node : slurm.meant(inhabited(), "rank", this::say)) {
            migrate(node);
        }
    }

    private void look() throws IOException, InterruptedException {
        if (options.drainCheck().isZero() || stopping || System.nanoTime() - nextLookNs < 0) {
            return;
        }
        nextLookNs = System.nanoTime() + options.drainCheck().toNanos();
        if (started < allocation.tasks()) {
            return;
        }
        for (String node : slurm.going(inhabited(), this::say)) {
            Long notBefore = notBeforeNs.get(node);
            if (!migrations.containsKey(node) && (notBefore == null || System.nanoTime() - notBefore >= 0)) {
                say(node + " is set to drain");
                migrate(node);
            }
        }
    }

    private void migrate(String node) throws IOException {
        if (migrations.containsKey(node)) {
            say("the ranks on " + node + " are being moved already");
            return;
        }
        String job = running.values().stream()
                .filter(rank -> rank.node().equals(node))
                .findFirst()
                .orElseThrow()
                .job();
        say("moving the ranks of " + node + " (job " + job + " there)");
        migrations.put(node, start("the migration from " + node, migrateCommand(node, job)));
    }

    /** No step of this run is left on the nodes with ranks: those of them that are set to drain are of no more use. */
    private void giveBack() throws InterruptedException {
        List<String> drained = options.giveBack() && !stopping ? slurm.going(List.copyOf(left), this::say) : List.of();
        left.clear();
        if (drained.isEmpty()) {
            return;
        }
        List<String> kept = new ArrayList<>(allocation.spares());
        allocation.computing().stream().filter(node -> !drained.contains(node)).forEach(kept::add);
        slurm.giveBack(allocation.job(), kept, String.join(", ", drained), this::say);
    }

    private void say(String text) {
        err.println("ppmr slurm-run: " + text);
    }

    /**
     * The ranks. Unless the user's options say otherwise, the step goes on when a node of it fails (--no-kill), when a
     * task ends before the others (--wait=0), and when one ends with another status than 0.
     */
    private List<String> ranksCommand() {
        List<String> words = Command.words(
                "srun --export=ALL --input=none --no-kill --wait=0 --kill-on-bad-exit=0 --nodes=%s --ntasks=%s"
                        + " --nodelist=%s",
                allocation.computing().size(), allocation.tasks(), String.join(",", allocation.computing()));
        words.addAll(options.srun());
        words.addAll(Command.words(
                "%s run --announce %s --socket %s --checkpointer %s --output %s",
                task, options.announcements(), options.socket(), options.checkpointer(), options.output()));
        if (options.error() != null) {
            words.addAll(List.of("--error", options.error()));
        }
        for (String spare : options.spares()) {
            words.addAll(List.of("--spare", spare));
        }
        words.add("--");
        words.addAll(options.program());
        return words;
    }

    /** The order to the source of a node, given on that node through its control socket. */
    private List<String> migrateCommand(String node, String job) {
        List<String> words = Step.beside(node, 1);
        words.add("--input=none");
        words.addAll(java.with(List.of("migrate", "--socket", options.socket().toString(), job)));
        return words;
    }

    /** Watches over ranks that were moved to a node, a task for each. */
    private List<String> keepCommand(String node, List<RankLine.Moved> ranks) {
        List<String> words = Step.beside(node, ranks.size());
        words.add("--input=none");
        words.addAll(List.of(task.toString(), "keep", "--unknown-exit", Integer.toString(options.unknownExit())));
        for (RankLine.Moved rank : ranks) {
            words.add(rank.rank() + ":"
                    + String.join(",", rank.pids().stream().map(String::valueOf).toList()));
        }
        return words;
    }

    /**
     * What Slurm gave the job, and how it is used. Immutable.
     *
     * @param job its number
     * @param spares the nodes that start without a rank: the batch host first
     * @param computing the others
     * @param tasks how many ranks
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
         * @param wantedTasks null for as many a node as the job asked for
         * @param environment Slurm's, of the batch script
         */
        public static Allocation of(
                String job, List<String> nodes, int spares, Integer wantedTasks, Map<String, String> environment)
                throws CommandFailure {
            if (spares < 1 || nodes.size() <= spares) {
                throw new CommandFailure(
                        ExitCode.USAGE,
                        "the job has " + nodes.size() + " nodes, of which " + spares
                                + " are to be spare: ask for one node"
                                + " more than the ranks need (sbatch --nodes), and give --spares of at least 1");
            }
            List<String> computing = nodes.subList(spares, nodes.size());
            String perNode = environment.getOrDefault("SLURM_NTASKS_PER_NODE", "");
            if (wantedTasks == null && !perNode.matches("[1-9]\\d{0,5}")) {
                throw new CommandFailure(
                        ExitCode.USAGE,
                        "how many ranks? Give --ntasks, or ask for the job with sbatch --ntasks-per-node");
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

    /** What a {@code ppmr-slurm-task} says of its rank, a line each on the standard output of srun; see its source. */
    sealed interface RankLine {
        /** The form of the lines. */
        Pattern WORDS = Pattern.compile("ppmr-rank (\\d{1,9}) ([a-z]+)(| .*)");

        /** The rank's number in the step. */
        int rank();

        /** It runs. */
        record Started(int rank, String job, String node) implements RankLine {}

        /** Its original is gone, and it goes on at that address. */
        record Moved(int rank, String address, List<Integer> pids) implements RankLine {
            public Moved {
                pids = List.copyOf(pids);
            }
        }

        /** It is watched after its move. */
        record Kept(int rank) implements RankLine {}

        /** It has ended; {@code known} says whether the status is its own. */
        record Ended(int rank, int status, boolean known) implements RankLine {}

        /** The line's meaning; empty if it is none of these, but words of srun or of somebody else. */
        static Optional<RankLine> parse(String line) {
            Matcher words = WORDS.matcher(line);
            if (!words.matches()) {
                return Optional.empty();
            }
            int rank = Integer.parseInt(words.group(1));
            List<String> rest = List.of(words.group(3).strip().split(" ", -1));
            try {
                return switch (words.group(2)) {
                    case "started" -> Optional.of(new Started(rank, rest.get(0), rest.get(1)));
                    case "moved" -> Optional.of(new Moved(rank, rest.get(0), pids(rest.get(1))));
                    case "kept" -> Optional.of(new Kept(rank));
                    case "ended" -> Optional.of(new Ended(rank, Integer.parseInt(rest.get(0)), true));
                    case "unknown" -> Optional.of(new Ended(rank, Integer.parseInt(rest.get(0)), false));
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
