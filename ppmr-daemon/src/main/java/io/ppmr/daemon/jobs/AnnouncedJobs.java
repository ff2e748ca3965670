package io.ppmr.daemon.jobs;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.UserPath;
import io.ppmr.migration.RefusedException;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The jobs that users have announced on this node. {@code DIRECTORY/jobs}, of mode 1777, has a folder for each job,
 * made by the job's user, with a file {@code rank-N} for each rank that runs: its PID, when that process started
 * (proc(5), field 22, so that a stale file names nobody else's process), its checkpointer and, where the job has some,
 * its own spare nodes, of which the first is asked.
 *
 * <p>A user can have no more moved than the user's own: the job's user is the folder's owner, the files must be that
 * user's, symbolic links are not followed, and the processes are checked when the migration starts. Immutable; for any
 * thread; everything is read anew at each call.
 */
public final class AnnouncedJobs {
    private static final Logger LOG = LoggerFactory.getLogger(AnnouncedJobs.class);
    private static final String NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
    private static final String RANK_FILE = "rank-(0|[1-9]\\d{0,8})";
    private static final int OTHERS_MAY_ENTER = 01;

    private final Optional<Path> directory;
    private final Map<String, Checkpointer> checkpointers;
    private final Set<String> marked;
    private final ProcessTable processes = new ProcessTable();

    /**
     * @param directory where they are announced; empty if this source takes none
     * @param checkpointers those of this source's configuration
     * @param marked the names of those that an announcement may name
     */
    public AnnouncedJobs(Optional<Path> directory, Map<String, Checkpointer> checkpointers, Set<String> marked) {
        this.directory = directory;
        this.checkpointers = Map.copyOf(checkpointers);
        this.marked = Set.copyOf(marked);
    }

    /** A source that takes none. */
    public static AnnouncedJobs none() {
        return new AnnouncedJobs(Optional.empty(), Map.of(), Set.of());
    }

    /** Whether jobs can be announced at all. */
    public boolean taken() {
        return directory.isPresent();
    }

    /** Makes the directories, unless they are there, and gives where the records go. */
    public MoveRecords prepare() throws IOException {
        if (directory.isEmpty()) {
            return new MoveRecords(Optional.empty());
        }
        Path moves = directory.get().resolve("moves");
        makeDirectory(directory.get(), "rwxr-xr-x");
        makeDirectory(moves, "rwxr-xr-x");
        makeDirectory(jobs(), "rwxrwxrwx");
        // Java's permissions know no sticky bit, without which users could remove each other's folders.
        Files.setAttribute(jobs(), "unix:mode", 01777);
        for (Path parent = directory.get().toAbsolutePath(); parent != null; parent = parent.getParent()) {
            if (((Integer) Files.getAttribute(parent, "unix:mode") & OTHERS_MAY_ENTER) == 0) {
                LOG.warn("no user can announce a job in {}, since {} lets none in: chmod o+x it", jobs(), parent);
            }
        }
        return new MoveRecords(Optional.of(moves));
    }

    private static void makeDirectory(Path path, String mode) throws IOException {
        Files.createDirectories(path);
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
    }

    private Path jobs() {
        return directory.orElseThrow().resolve("jobs");
    }

    /** The names of all that have a rank which runs, in order. */
    public List<String> names() {
        List<String> names = new ArrayList<>();
        if (directory.isEmpty()) {
            return names;
        }
        try (DirectoryStream<Path> folders = Files.newDirectoryStream(jobs())) {
            for (Path folder : folders) {
                String name = folder.getFileName().toString();
                if (name.matches(NAME) && hasRanks(name)) {
                    names.add(name);
                }
            }
        } catch (IOException e) {
            LOG.warn("the announced jobs in {} cannot be listed: {}", jobs(), e.getMessage());
        }
        return names.stream().sorted().toList();
    }

    private boolean hasRanks(String name) {
        try {
            return find(name).isPresent();
        } catch (RefusedException e) {
            LOG.warn("{}", e.getMessage());
            return false;
        }
    }

    /** Whether a job is announced, and the user of that name owns it. */
    public boolean isOwnedBy(String name, String user) {
        if (directory.isEmpty() || name == null || !name.matches(NAME)) {
            return false;
        }
        try {
            return Files.getOwner(jobs().resolve(name), LinkOption.NOFOLLOW_LINKS)
                    .getName()
                    .equals(user);
        } catch (IOException e) {
            LOG.debug("no job {} is announced", name, e);
            return false;
        }
    }

    /**
     * A job as it is announced now, with those of its ranks that still run; empty if there is none of that name.
     *
     * @throws RefusedException if it is announced wrongly
     */
    public Optional<ConfiguredJob> find(String name) throws RefusedException {
        if (directory.isEmpty() || !name.matches(NAME)) {
            return Optional.empty();
        }
        Path folder = jobs().resolve(name);
        try (UserPath held = UserPath.hold(folder)) {
            JobUser user = held.owner();
            List<Announcement> ranks = ranks(held, user);
            if (ranks.isEmpty()) {
                return Optional.empty();
            }
            String checkpointer = ranks.get(0).checkpointer();
            if (ranks.stream().anyMatch(rank -> !rank.checkpointer().equals(checkpointer))) {
                throw wrong(folder, "its ranks name different checkpointers");
            }
            if (!checkpointers.containsKey(checkpointer)) {
                throw wrong(folder, "there is no [checkpointers." + checkpointer + "] in this source's configuration");
            }
            if (!marked.contains(checkpointer)) {
                throw wrong(
                        folder,
                        "checkpointer " + checkpointer + " is not marked for announced jobs. Remedy: announce one that"
                                + " runs as the job's user, or the operator sets for_announced_jobs = true in"
                                + " [checkpointers." + checkpointer + "] of this source's configuration");
            }
            List<InetSocketAddress> spares = ranks.get(0).spares();
            List<ConfiguredJob.RankSource> sources = ranks.stream()
                    .map(rank -> new ConfiguredJob.RankSource(rank.rank(), rank.pid(), null))
                    .toList();
            return Optional.of(new ConfiguredJob(
                    name,
                    user,
                    checkpointers.get(checkpointer),
                    sources,
                    Map.of(),
                    JobHooks.NONE,
                    spares,
                    Optional.empty()));
        } catch (NoSuchFileException e) {
            LOG.debug("no job {} is announced", name, e);
            return Optional.empty();
        } catch (IOException e) {
            throw wrong(folder, "cannot be read: " + e.getMessage());
        }
    }

    private record Announcement(int rank, int pid, String checkpointer, List<InetSocketAddress> spares) {}

    private List<Announcement> ranks(UserPath folder, JobUser user) throws IOException, RefusedException {
        List<Announcement> ranks = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder.directory(), "rank-*")) {
            for (Path file : files) {
                if (file.getFileName().toString().matches(RANK_FILE)) {
                    rank(folder, file.getFileName(), user).ifPresent(ranks::add);
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        ranks.sort(Comparator.comparingInt(Announcement::rank));
        return ranks;
    }

    /** A rank; empty where its process has ended. */
    private Optional<Announcement> rank(UserPath folder, Path name, JobUser user) throws IOException, RefusedException {
        Path file = folder.path().resolve(name);
        RankFile rank;
        try (UserPath held = folder.entry(name)) {
            if (held.owner().uid() != user.uid()) {
                throw wrong(file, "does not belong to the folder's owner");
            }
            String text = held.read(UserPath.MAX_TEXT_BYTES);
            try {
                rank = RankFile.parse(text);
            } catch (IOException e) {
                throw wrong(file, e.getMessage());
            }
        } catch (NoSuchFileException e) {
            LOG.debug("{} has just ended", file, e);
            return Optional.empty();
        }
        Optional<ProcessIdentity> process =
                processes.find(rank.pid()).filter(found -> found.startTimeTicks() == rank.startTicks());
        int number = Integer.parseInt(file.getFileName().toString().substring("rank-".length()));
        return process.map(found -> new Announcement(number, found.pid(), rank.checkpointer(), rank.spares()));
    }

    private static RefusedException wrong(Path path, String what) {
        return new RefusedException("the announced job " + path + ": " + what);
    }
}
