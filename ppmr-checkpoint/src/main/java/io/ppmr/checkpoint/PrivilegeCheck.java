package io.ppmr.checkpoint;

import io.ppmr.checkpoint.FileLooker.Question;
import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import io.ppmr.linux.Command;
import io.ppmr.linux.MountEntry;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Compares restored processes with the source's record of their originals, before the vote and so before they continue.
 * No user gains privileges by a migration. It blocks the caller while it reads {@code /proc}. If a file was not open in
 * the original, it also runs a command as the job's user. Immutable.
 */
public final class PrivilegeCheck {
    private static final Duration HELPER_LIMIT = Duration.ofSeconds(20);
    private static final int FILES_A_CALL = 200;
    private static final int COMMANDS_A_CALL = 100;

    /**
     * A script for the job's user. It runs commands, whose words have no blanks or special characters, and names the
     * first that fails.
     */
    private static final String DO_EACH = "for one; do $one >/dev/null || { echo \"'$one' failed\"; exit 1; }; done";

    private final ToolKit kit;
    private final JobUser user;
    private final Path own;
    private final RightsBounds bounds;

    /**
     * @param user the job's user
     *
     * @param own directory of the attempt at this node, without links. It has a restart's own output and files,
     *     which restored processes inherit.
     * @param bounds limits of the files and threads of a copy
     */
    public PrivilegeCheck(NativePrograms programs, JobUser user, Path own, RightsBounds bounds) {
        this.kit = ToolKit.of(programs, RankCommand.Timing.defaults());
        this.user = user;
        this.own = own;
        this.bounds = bounds;
    }

    /** A file of a copy that no known rule allows, so the job's user must be able to open it. */
    private record Doubtful(HeldRank rank, OpenFile file) {}

    /** Checks one rank. */
    public void requireNoEscalation(HeldRank restored, ProcessPrivileges original) throws CheckpointException {
        requireNoEscalation(Map.of(restored, original));
    }

    /**
     * Throws if a restored process has more privileges or open files than its originals. The message names the first
     * one. Limits and nice values from the restart's own start are first lowered to the originals'. Threads and sockets
     * get the settings that the tool leaves out. Commands for that run for many ranks at once. One copy's record is
     * removed before the next one is read.
     *
     * @param ranks the record of its originals for each copy
     */
    public void requireNoEscalation(Map<HeldRank, ProcessPrivileges> ranks) throws CheckpointException {
        List<String> toLower = new ArrayList<>();
        for (Map.Entry<HeldRank, ProcessPrivileges> rank : ranks.entrySet()) {
            if (rank.getValue().summary().hasNoThread()) {
                throw escalation(rank.getKey(), "the privileges of its original are unknown");
            }
            addLowering(rank.getKey(), rank.getValue().summary(), toLower);
        }
        lower(toLower);
        Questions questions = new Questions();
        for (Map.Entry<HeldRank, ProcessPrivileges> rank : ranks.entrySet()) {
            HeldRank restored = rank.getKey();
            String whose = "the copy of rank " + restored.rank();
            SettingsRestore.restore(restored, rank.getValue(), user);
            try (ProcessPrivileges copy = ProcessPrivileges.readOfCopies(whose, restored.processes(), bounds)) {
                Optional<String> more = new RightsComparison(copy, rank.getValue()).firstEscalation(file -> {
                    boolean users =
                            file.ownerUid() == user.uid() || ProcessPrivileges.ANONYMOUS_MEMORY.contains(file.path());
                    if (!users && !isOwn(file.path())) {
                        questions.add(new Doubtful(restored, file));
                    }
                });
                if (more.isPresent()) {
                    throw escalation(restored, more.get());
                }
            }
        }
        questions.ask();
    }

    private boolean isOwn(String path) {
        String folder = MountEntry.bytesOf(own);
        return path.equals(folder) || path.startsWith(folder + "/");
    }

    private static CheckpointException escalation(HeldRank rank, String what) {
        return new CheckpointException("the copy of rank " + rank.rank() + " has more than its original had: " + what
                + ". Remedy: check the work of the restart command, and the files that the job has open, which may"
                + " differ on this node");
    }

    // ---- files -------------------------------------------------------------------------------------------------

    /** Queries that wait until there are enough for one command. */
    private final class Questions {
        private final Map<Question, Doubtful> waiting = new LinkedHashMap<>();
        private HeldRank last;
        private String mounts = "";

        void add(Doubtful one) throws CheckpointException {
            if (one.rank() != last) {
                last = one.rank();
                mounts = mountsOf(last.processes().get(0));
            }
            String mode = (one.file().reads() ? "r" : "-") + (one.file().writes() ? "w" : "-");
            // The query is sent once for all copies that have the file open.
            waiting.putIfAbsent(new Question(mode, mounts + one.file().path()), one);
            if (waiting.size() == FILES_A_CALL) {
                ask();
            }
        }

        void ask() throws CheckpointException {
            if (waiting.isEmpty()) {
                return;
            }
            Optional<Question> closed = firstClosed(List.copyOf(waiting.keySet()));
            if (closed.isPresent()) {
                Doubtful one = waiting.get(closed.get());
                throw escalation(
                        one.rank(),
                        "it has " + one.file() + "; its original did not have it, and user " + user.uid()
                                + " cannot open it in this mode");
            }
            waiting.clear();
        }
    }

    /**
     * Finds the first file that the job's user cannot open in the rank's own mounts. The kernel decides. No program is
     * started inside those mounts, because the job's user may have replaced it there.
     */
    private Optional<Question> firstClosed(List<Question> files) throws CheckpointException {
        try (FileLooker looker = FileLooker.start(kit.programs(), user, new ContentDigests(), bounds.calledOff())) {
            List<String> answers = looker.mayOpen(files);
            for (int at = 0; at < files.size(); at++) {
                if (!answers.get(at).equals(FileLooker.YES)) {
                    return Optional.of(files.get(at));
                }
            }
            return Optional.empty();
        }
    }

    /**
     * Returns the prefix by which a process's paths are reached from here, or empty if it has this service's mounts.
     */
    private static String mountsOf(ProcessIdentity process) throws CheckpointException {
        Path of = Path.of("/proc", Integer.toString(process.pid()));
        try {
            boolean same = Files.readSymbolicLink(of.resolve("ns/mnt"))
                            .equals(Files.readSymbolicLink(Path.of("/proc/self/ns/mnt")))
                    && Files.readSymbolicLink(of.resolve("root")).equals(Path.of("/"));
            return same ? "" : of.resolve("root").toString();
        } catch (IOException e) {
            throw new CheckpointException(
                    "the mounts of restored PID " + process.pid() + " cannot be read: " + e
                            + ". Remedy: the process may be gone; check the restart command's output",
                    e);
        }
    }

    // ---- limits and nice values --------------------------------------------------------------------------------

    /**
     * Adds commands that lower limits to those of the originals. A tool that does not restore limits leaves those of
     * its command's start. The job's user may lower its own.
     *
     * @param commands for each change, the words behind {@code prlimit} or {@code renice} as one text
     */
    private static void addLowering(HeldRank restored, RightsSummary original, List<String> commands)
            throws CheckpointException {
        RightsSummary copy = ProcessPrivileges.shares(restored.processes());
        StringBuilder limits = new StringBuilder();
        for (String name : ProcessRights.LIMITS.values()) {
            long most = original.most(name, ThreadRights.HARD);
            if (Long.compareUnsigned(copy.most(name, ThreadRights.HARD), most) > 0) {
                limits.append(" --").append(name).append('=');
                limits.append(ThreadRights.shown(original.most(name, ThreadRights.SOFT)));
                limits.append(':').append(ThreadRights.shown(most));
            }
        }
        int nice = original.leastNice();
        boolean renice = copy.leastNice() < nice;
        for (ProcessIdentity process : restored.processes()) {
            if (!limits.isEmpty()) {
                commands.add("prlimit --pid " + process.pid() + limits);
            }
            if (renice) {
                commands.add("renice -n " + nice + " -p " + String.join(" ", ProcessPrivileges.threadIds(process)));
            }
        }
    }

    private void lower(List<String> commands) throws CheckpointException {
        for (int from = 0; from < commands.size(); from += COMMANDS_A_CALL) {
            List<String> words = new ArrayList<>(kit.launch(Optional.of(user)));
            words.addAll(List.of("/bin/sh", "-c", DO_EACH, "sh"));
            words.addAll(commands.subList(from, Math.min(from + COMMANDS_A_CALL, commands.size())));
            Command.CommandResult result = kit.starter().run(words, HELPER_LIMIT);
            if (!result.succeeded()) {
                String output = result.output();
                throw new CheckpointException("a copy's limits cannot be lowered to those of its original: "
                        + (result.timedOut() ? result.describe() : output));
            }
        }
    }
}
