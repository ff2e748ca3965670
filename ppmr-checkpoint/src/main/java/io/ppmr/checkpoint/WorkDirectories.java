package io.ppmr.checkpoint;

import io.ppmr.linux.Folders;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The directories in which commands keep their own files. A user can change only the content of the user's own scratch
 * folder. The service opens files in there only through {@link UserPath}:
 *
 * <pre>
 * WORK/ATTEMPT/           the service's, 0711: a user can pass through
 * WORK/ATTEMPT/rank-N/    the service's, 0711
 *              |-- own/      the service's, 0700: every command's output; logs and PID files of root's tools
 *              `-- scratch/  the job's user's, 0700: files of a tool that runs as that user
 * </pre>
 *
 * A hook's directory is made like that of a rank.
 */
public final class WorkDirectories {
    private static final Pattern ATTEMPT =
            Pattern.compile("(hooks-)?([A-Za-z0-9_-]{1,64})(?:\\.(\\d{1,9}))?(?:\\.\\d+)?");

    private static final Logger LOG = LoggerFactory.getLogger(WorkDirectories.class);
    private static final String OWN = "own";
    private static final String SCRATCH = "scratch";
    private static final String PASSAGE = "rwx--x--x";
    private static final String ALONE = "rwx------";
    private static final int OTHERS_MAY_WRITE = 022;
    private static final int STICKY = 01000;
    private static final int MODE = 07777;

    private WorkDirectories() {}

    /**
     * Makes a service's work directory, unless it exists. Refuses one in whose path a user can change a name, because
     * that user could redirect the service's files.
     */
    public static void prepare(Path workDirectory) throws IOException {
        if (!Files.exists(workDirectory)) {
            passage(workDirectory);
        }
        Optional<Changeable> changeable = changeable(workDirectory);
        if (changeable.isPresent()) {
            Path one = changeable.get().directory();
            throw new IOException("work_directory = \"" + workDirectory + "\": " + one + " "
                    + changeable.get().reason()
                    + ", which could redirect the service's files. Remedy: chown root " + one + " and chmod go-w "
                    + one + ", or name another work_directory");
        }
    }

    /**
     * A directory in which users other than root and the service's own can change names.
     *
     * @param directory the directory
     * @param reason its owner, or its writers, for people
     */
    public record Changeable(Path directory, String reason) {}

    /**
     * Returns the first such directory on the way from a directory, links resolved, to the root, or empty if there is
     * none.
     */
    public static Optional<Changeable> changeable(Path directory) throws IOException {
        int own = JobUser.ofService().uid();
        for (Path one = directory.toRealPath(); one != null; one = one.getParent()) {
            Map<String, Object> found = Files.readAttributes(one, "unix:uid,mode");
            int owner = (int) found.get("uid");
            int mode = (int) found.get("mode") & MODE;
            if (owner != 0 && owner != own) {
                return Optional.of(new Changeable(one, "belongs to user " + owner));
            }
            if ((mode & OTHERS_MAY_WRITE) != 0 && (mode & STICKY) == 0) {
                return Optional.of(new Changeable(one, "can be written by others"));
            }
        }
        return Optional.empty();
    }

    /** Makes the directory of a rank's command in that of its attempt. Throws, with the place, if that fails. */
    public static Path create(Path root, int rank) throws IOException {
        Path directory = root.resolve("rank-" + rank);
        try {
            passage(root);
            Files.createDirectory(directory);
            passage(directory);
            return directory;
        } catch (FileAlreadyExistsException e) {
            throw e;
        } catch (IOException e) {
            throw new IOException(
                    "the work directory cannot be written (" + e.getMessage() + "). Remedy: make room in "
                            + root.getParent() + " of this node",
                    e);
        }
    }

    /** Makes a directory that users can pass through, or sets an existing one's mode so. */
    static void passage(Path directory) throws IOException {
        Set<PosixFilePermission> wanted = PosixFilePermissions.fromString(PASSAGE);
        if (!Files.isDirectory(directory)
                || !Files.getPosixFilePermissions(directory).equals(wanted)) {
            Folders.create(directory, PASSAGE);
            Files.setPosixFilePermissions(directory, wanted);
        }
    }

    /** Returns the service's own folder in a command's directory; made if missing. */
    static Path own(Path workDirectory) throws IOException {
        return make(workDirectory, OWN);
    }

    /** Returns the folder of a tool that runs as the job's user. It is made if missing, and given to that user. */
    static Path scratch(Path workDirectory, JobUser user) throws IOException {
        Path scratch = make(workDirectory, SCRATCH);
        // A service of another user than root runs its tools as itself.
        if (JobUser.ofService().uid() == 0 && !user.equals(owner(scratch))) {
            Files.setAttribute(scratch, "unix:gid", user.gid(), LinkOption.NOFOLLOW_LINKS);
            Files.setAttribute(scratch, "unix:uid", user.uid(), LinkOption.NOFOLLOW_LINKS);
        }
        return scratch;
    }

    private static Path make(Path workDirectory, String name) throws IOException {
        passage(workDirectory);
        Path directory = workDirectory.resolve(name);
        if (Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)) {
            return directory;
        }
        FileAttribute<Set<PosixFilePermission>> alone =
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(ALONE));
        try {
            Files.createDirectory(directory, alone);
        } catch (FileAlreadyExistsException e) {
            if (!Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)) {
                throw e;
            }
        }
        return directory;
    }

    private static JobUser owner(Path path) throws IOException {
        Map<String, Object> found = Files.readAttributes(path, "unix:uid,gid", LinkOption.NOFOLLOW_LINKS);
        return new JobUser((int) found.get("uid"), (int) found.get("gid"));
    }

    /**
     * Removes a directory with all its content, whatever users do in it at that time. Nothing happens if it does not
     * exist.
     *
     * @param root directory in a parent in which only this service's user can exchange it
     */
    public static void remove(Path root) throws IOException {
        TreeRemoval.remove(root);
    }

    /** Checks whether an attempt of a migration is over; 0 stands for its hooks. */
    @FunctionalInterface
    public interface AttemptEnded {
        boolean test(String migrationId, int attempt) throws IOException;
    }

    /**
     * Removes the directories that a killed service has left: those of ended attempts, {@code MIGRATION.ATTEMPT} with
     * an optional suffix, and those of ended migrations' hooks, {@code hooks-MIGRATION}.
     */
    public static void removeEnded(Path workDirectory, AttemptEnded isOver) throws IOException {
        try (Stream<Path> found = Files.list(workDirectory)) {
            for (Path directory : found.toList()) {
                Matcher name = ATTEMPT.matcher(directory.getFileName().toString());
                if (name.matches()
                        && isOver.test(name.group(2), name.group(3) == null ? 0 : Integer.parseInt(name.group(3)))) {
                    removeOrWarn(directory);
                }
            }
        }
    }

    /** Removes a directory as {@link #remove} does. On an error it remains, with a line in the log. */
    public static void removeOrWarn(Path root) {
        try {
            remove(root);
        } catch (IOException e) {
            LOG.warn("work directory {} could not be removed: {}", root, e.getMessage());
        }
    }
}
