package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.os.LibC;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Decides by what was seen of a file at both nodes whether a copy would have the same one. Pure; for any thread.
 *
 * @param equivalent files that each node has for itself and that need not have the same content
 * @param sameKernel whether one kernel shows the files of both nodes
 * @param carry which files travel with the job
 * @param uid the job's user
 */
public record FileRules(PathPatterns equivalent, boolean sameKernel, CarryPolicy carry, long uid) {
    /** Files of a node's own are read on both nodes to be compared, up to 64 GiB. */
    private static final long MOST_CONTENT_BYTES = 64L << 30;

    private static final Pattern OF_PROCESS = Pattern.compile("/proc/(\\d{1,10})(/.*)?", Pattern.DOTALL);
    private static final int MISSING = 2;
    private static final int DENIED = 13;
    /** No filesystem that is in use has smaller files; a carried one may have holes. */
    private static final long LONGEST_CARRIED_BYTES = 1L << 40;

    private static final String SHARE = "share the folder between both nodes";
    private static final String SAME = "have the same on both nodes, or " + SHARE;

    /** The decision about a file. */
    public sealed interface FileDecision {}

    /**
     * A copy has the same.
     *
     * @param shared whether it is one object that another kernel shows, too: its length can be seen late there
     */
    public record Same(boolean shared) implements FileDecision {}

    /** Each node has one of its own: their contents must be compared. */
    public record CompareContent() implements FileDecision {}

    /**
     * It travels with the job.
     *
     * @param replaces whether the target has a file of the job's user there
     */
    public record Carried(boolean replaces) implements FileDecision {}

    /** It cannot move. */
    public record Refused(Refusal refusal) implements FileDecision {}

    private static final FileDecision FINE = new Same(false);

    /**
     * Decides what can be decided without the other node; empty if it has to be asked.
     *
     * @param rank of the process
     * @param here what was seen of it
     * @param pids of the rank's processes, as they see themselves
     */
    public Optional<FileDecision> alone(int rank, OpenedFile file, FileFacts here, Set<String> pids) {
        if (here.isTerminal()) {
            return Optional.of(FINE);
        }
        if (!here.isOfProc()) {
            return Optional.empty();
        }
        Matcher process = OF_PROCESS.matcher(file.path());
        if (!process.matches()) {
            return Optional.empty();
        }
        return Optional.of(
                pids.contains(process.group(1))
                        ? FINE
                        : refused(
                                rank,
                                file,
                                "which tells of a process that is not moved with it",
                                "have the job close it before it is moved"));
    }

    /** Decides where a file cannot be looked at, at one of the nodes. */
    public FileDecision unseen(int rank, OpenedFile file, int error, boolean there) {
        String node = there ? "at the target" : "here";
        if (error == MISSING) {
            return refused(
                    rank,
                    file,
                    "which is missing " + node,
                    there
                            ? file.writes()
                                    ? SHARE + ", name it in [files] copy of both nodes, or have the job write to a"
                                            + " shared one"
                                    : SAME
                            : "have the job open it by a path that leads to it");
        }
        return refused(
                rank,
                file,
                "which its user cannot look at " + node + ": " + LibC.describe(error),
                error == DENIED
                        ? "let the job's user pass the folders above it"
                        : "mend the filesystem there, or have the job close it");
    }

    /** Decides where the target has nothing at a file's path. */
    public FileDecision missing(int rank, OpenedFile file, FileFacts here) {
        return carried(rank, file, here, false).orElseGet(() -> unseen(rank, file, MISSING, true));
    }

    /** A file that another node has not, or not so, travels with the job where that is configured. */
    private Optional<FileDecision> carried(int rank, OpenedFile file, FileFacts here, boolean replaces) {
        if (!here.isRegular() || !carry.names(file.pathElsewhere(here.which()))) {
            return Optional.empty();
        }
        if (here.uid() != uid) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which belongs to user " + here.uid() + ", and only files of the job's user are carried",
                    SAME));
        }
        if (here.links() > 1) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which has " + here.links() + " names, and a file is carried under one name",
                    "have the job remove the others, or " + SHARE));
        }
        if (here.lengthBytes() > LONGEST_CARRIED_BYTES) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which has a length of " + here.lengthBytes() + " bytes, and files of up to "
                            + LONGEST_CARRIED_BYTES + " are carried",
                    SHARE));
        }
        if (replaces && !carry.replace()) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which is carried (files.copy), and the target has a file of that name",
                    "remove that one, or set replace = true in [files] at both nodes"));
        }
        return Optional.of(new Carried(replaces));
    }

    /** Compares what both nodes have at one path. */
    public FileDecision compare(int rank, OpenedFile file, FileFacts here, FileFacts there) {
        if (!here.isOfTypeOf(there)) {
            return refused(rank, file, "which is a file of another type at the target", SHARE);
        }
        if (here.isOfProc() || here.isOfKernel()) {
            return here.system() == there.system()
                    ? FINE
                    : refused(rank, file, "which is of another filesystem at the target", "mount the same there");
        }
        if (here.isDevice()) {
            return here.rdev().equals(there.rdev())
                    ? FINE
                    : refused(
                            rank,
                            file,
                            "which is device " + here.rdev() + " here and " + there.rdev() + " at the target",
                            "name a spare node with the same devices");
        }
        if (here.isSameObject(there, sameKernel) && (file.writes() || here.isSurelySame(there))) {
            return new Same(here.isRegular() && !(here.isOfOneNode() && sameKernel));
        }
        // Restarts compare mode and length, and the owner of such a file may have another number on each node.
        boolean alike = here.permissions() == there.permissions() && here.lengthBytes() == there.lengthBytes();
        if (alike && !file.writes() && equivalent.matches(file.path())) {
            return FINE;
        }
        if (file.writes() || !alike || here.uid() != there.uid()) {
            Optional<FileDecision> carried = carried(rank, file, here, true);
            if (carried.isPresent()) {
                return carried.get();
            }
        }
        if (here.uid() != there.uid() || here.permissions() != there.permissions()) {
            return refused(
                    rank,
                    file,
                    "which belongs to user " + here.uid() + " with mode " + shown(here) + " here, and to user "
                            + there.uid() + " with mode " + shown(there) + " at the target",
                    SAME);
        }
        if (!here.isRegular() || (!file.reads() && !file.writes())) {
            return FINE;
        }
        if (file.writes()) {
            return refused(
                    rank,
                    file,
                    "which is this node's own: the target has another file of that name, and a copy would write to"
                            + " that one",
                    SHARE + ", name it in [files] copy of both nodes, or have the job write to a shared one");
        }
        // Restarts compare lengths, too, while the job is stopped.
        if (here.lengthBytes() != there.lengthBytes()) {
            return refused(
                    rank,
                    file,
                    "which has " + here.lengthBytes() + " bytes here and " + there.lengthBytes()
                            + " in the target's own file of that name",
                    SAME);
        }
        if (here.lengthBytes() > MOST_CONTENT_BYTES) {
            return refused(
                    rank,
                    file,
                    "which is this node's own, and too large to be compared with the target's file of that name",
                    SHARE + ", or name it in [files] equivalent");
        }
        return new CompareContent();
    }

    /**
     * Decides by the contents of two files of a node's own; each is what {@code ppmr-look} or a digest says.
     *
     * @param facts what was seen of it here
     */
    public FileDecision contents(int rank, OpenedFile file, FileFacts facts, String here, String there) {
        if (here.equals(there) && !here.startsWith("error")) {
            return FINE;
        }
        if (FileFacts.error(here) != 0 || FileFacts.error(there) != 0) {
            boolean target = FileFacts.error(here) == 0;
            return unseen(rank, file, FileFacts.error(target ? there : here), target);
        }
        return carried(rank, file, facts, true)
                .orElseGet(() -> refused(rank, file, "and the target's own file of that name has other content", SAME));
    }

    private static String shown(FileFacts file) {
        return Integer.toOctalString(file.permissions());
    }

    private static FileDecision refused(int rank, OpenedFile file, String why, String remedy) {
        return new Refused(new Refusal(rank, file + ", " + why, remedy));
    }

    /** Returns the reasons in one sentence for people. */
    public static String worded(List<Refusal> refusals) {
        Refusal first = refusals.get(0);
        long more = refusals.stream().map(Refusal::reason).distinct().count() - 1;
        return "rank " + first.rank() + ": " + first.reason()
                + (more == 0 ? "" : "; the same or the like holds for " + more + " more of the job's files")
                + ". Remedy: " + first.remedy();
    }
}
