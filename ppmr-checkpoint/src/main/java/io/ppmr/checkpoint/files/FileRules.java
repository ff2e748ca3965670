package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.LibC;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Decides from the facts of both nodes whether a copy would have the same file. Pure; for any thread.
 *
 * @param equivalent files of each node whose content may differ
 * @param sameKernel whether one kernel shows the files of both nodes
 * @param carry policy for files that move with the job
 * @param uid the job's user
 */
public record FileRules(PathPatterns equivalent, boolean sameKernel, CarryPolicy carry, long uid) {
    /** Maximum size of a node's own files for a comparison of their contents on both nodes. */
    private static final long MOST_CONTENT_BYTES = 64L << 30;

    private static final Pattern OF_PROCESS = Pattern.compile("/proc/(\\d{1,10})(/.*)?", Pattern.DOTALL);
    private static final int MISSING = 2;
    private static final int DENIED = 13;
    /** ECONNREFUSED. */
    private static final int UNBOUND = 111;

    private static final String OWN_NAME =
            "have the job bind its socket to another name, or remove that file at the" + " target";
    /** Maximum length of a moved file. Every filesystem in use supports larger ones, and the file may have holes. */
    private static final long LONGEST_CARRIED_BYTES = 1L << 40;

    /** The answer for a socket that a process has. */
    private static final String YES = "yes";

    private static final String SHARE = "share the folder between both nodes";
    private static final String SAME = "have the same on both nodes, or " + SHARE;

    /** The decision about a file. */
    public sealed interface FileDecision {}

    /**
     * A copy has the same file.
     *
     * @param shared whether it is one object that another kernel shows, too; its length can be delayed there
     */
    public record Same(boolean shared) implements FileDecision {}

    /** Each node has its own file, so their contents must be compared. */
    public record CompareContent() implements FileDecision {}

    /** The target has a Unix socket of the same user with that name, which a process may have. */
    public record CompareBound() implements FileDecision {}

    /**
     * The file moves with the job.
     *
     * @param replaces whether the target has a file of the job's user at its path
     */
    public record Carried(boolean replaces) implements FileDecision {}

    /** The rank cannot move because of the file. */
    public record Refused(Refusal refusal) implements FileDecision {}

    private static final FileDecision FINE = new Same(false);

    /**
     * Decides without the other node, or empty if it must be queried.
     *
     * @param rank rank of the process
     * @param here facts of the file
     * @param pids PIDs of the rank's processes in their own PID namespaces
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
                                "which describes a process that is not moved with it",
                                "have the job close it before it is moved"));
    }

    /** Decides about a file that cannot be inspected at one of the nodes. */
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
                "which its user cannot access " + node + ": " + LibC.describe(error),
                error == DENIED
                        ? "let the job's user enter the folders above it"
                        : "repair the filesystem there, or have the job close it");
    }

    /** Decides about a file whose path does not exist at the target. */
    public FileDecision missing(int rank, OpenedFile file, FileFacts here) {
        return carried(rank, file, here, false).orElseGet(() -> unseen(rank, file, MISSING, true));
    }

    /**
     * Decides whether a file that the target lacks, or has in another form, moves with the job by the configuration.
     */
    private Optional<FileDecision> carried(int rank, OpenedFile file, FileFacts here, boolean replaces) {
        if (!here.isRegular() || !carry.names(file.pathElsewhere(here.which()))) {
            return Optional.empty();
        }
        if (here.uid() != uid) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which belongs to user " + here.uid() + ", and only files of the job's user move with it",
                    SAME));
        }
        if (here.links() > 1) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which has " + here.links() + " names, and only a file with one name moves with a job",
                    "have the job remove the others, or " + SHARE));
        }
        if (here.lengthBytes() > LONGEST_CARRIED_BYTES) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which has a length of " + here.lengthBytes() + " bytes, and the limit is " + LONGEST_CARRIED_BYTES,
                    SHARE));
        }
        if (replaces && !carry.replace()) {
            return Optional.of(refused(
                    rank,
                    file,
                    "which must move with the job (files.copy), and the target has a file of that name",
                    "remove that one, or set replace = true in [files] at both nodes"));
        }
        return Optional.of(new Carried(replaces));
    }

    /** Compares the files of both nodes at one path. */
    public FileDecision compare(int rank, OpenedFile file, FileFacts here, FileFacts there) {
        if (!here.isOfTypeOf(there)) {
            return refused(rank, file, "which is a file of another type at the target", SHARE);
        }
        if (here.isOfProc() || here.isOfKernel()) {
            return here.system() == there.system()
                    ? FINE
                    : refused(rank, file, "which is on another filesystem at the target", "mount the same one there");
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
        // Restarts compare mode and length. The owner of such a file may have another number on each node.
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
                    "which belongs to this node: the target has another file of that name, and a copy would write to"
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
                    "which belongs to this node, and is too large to be compared with the target's file of that name",
                    SHARE + ", or name it in [files] equivalent");
        }
        return new CompareContent();
    }

    /**
     * Decides from the contents of both nodes' own files, each as {@code ppmr-look} or a digest describes it.
     *
     * @param facts facts of the file here
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

    /**
     * Compares the files of both nodes with the name of a job's Unix socket. A restart removes that of the target. So
     * it must be the socket's own, or one that no process has.
     *
     * @param here facts of the socket's file here, or empty if the name leads to no or another file
     */
    public FileDecision compareNames(int rank, OpenedFile file, Optional<FileFacts> here, FileFacts there) {
        if (here.isPresent() && here.get().isSameObject(there, sameKernel)) {
            return new Same(true);
        }
        if (!there.isSocket() || there.uid() != uid) {
            return refused(
                    rank, file, "and the target has another file of that name, which the copy would remove", OWN_NAME);
        }
        return new CompareBound();
    }

    /** Decides from the target's answer whether a process there has the socket of that name. */
    public FileDecision boundThere(int rank, OpenedFile file, String answer) {
        int error = FileFacts.error(answer);
        if (error == UNBOUND || error == MISSING) {
            return FINE;
        }
        return answer.equals(YES)
                ? refused(
                        rank,
                        file,
                        "and a process at the target has a socket of that name, which the copy would take from it",
                        OWN_NAME)
                : unseen(rank, file, error, true);
    }

    /** Decides about the name of a socket whose folder the target lacks. */
    public FileDecision missingFolder(int rank, OpenedFile file) {
        return refused(rank, file, "and that folder is missing at the target", "make it there, or " + SHARE);
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
                + (more == 0 ? "" : "; " + more + " more of the job's files have similar problems")
                + ". Remedy: " + first.remedy();
    }
}
