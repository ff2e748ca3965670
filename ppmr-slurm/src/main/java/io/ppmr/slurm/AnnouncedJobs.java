package io.ppmr.slurm;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.UserPath;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.linux.Accounts;
import io.ppmr.linux.Folders;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.io.UncheckedIOException;
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
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The jobs that users announced on this node. {@code DIRECTORY/jobs} belongs to the service. On a user's request, the
 * service makes a folder {@code UID} in it and transfers the folder to that user. It has a folder for each job, with a
 * file {@code rank-N} for each running rank. The file holds the PID, the checkpointer, and the job's own spare nodes if
 * there are any. It also holds the start time of that process (proc(5), field 22), so that a stale file names no other
 * process.
 *
 * <p>A user can only move own processes. Every file must belong to the user of the folder, and symbolic links are not
 * followed. The migration checks the processes when it starts. The number of jobs and ranks of each user is limited. It
 * is immutable and safe for any thread. Each call reads everything again.
 */
public final class AnnouncedJobs implements JobSource {
    private static final Logger LOG = LoggerFactory.getLogger(AnnouncedJobs.class);
    private static final String NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
    private static final String UID = "0|[1-9]\\d{0,9}";
    private static final Pattern FULL_NAME = Pattern.compile("(" + UID + ")/(" + NAME + ")");
    /** The prefix of names that are no user's folder. */
    private static final String ASIDE = ".";

    private static final String OPEN = "rwxr-xr-x";
    private static final String RANK_FILE = "rank-(0|[1-9]\\d{0,8})";
    private static final int OTHERS_MAY_ENTER = 01;
    /** Maximum number of jobs of one user: the processors of a large node. */
    static final int MAX_JOBS = 256;
    /** Maximum number of ranks of one user, in all jobs. */
    static final int MAX_RANKS = 4096;

    private final Path directory;
    private final Map<String, Checkpointer> checkpointers;
    private final Set<String> marked;
    private final MoveRecords records;
    private final ProcessTable processes = new ProcessTable();
    private final RareLog log = new RareLog(LOG::warn);

    /** The number of files of one user that may still be read. */
    private static final class Share {
        private int ranks = MAX_RANKS;

        void take(Path of) throws IOException {
            if (--ranks < 0) {
                throw new IOException("the user has announced more than " + MAX_RANKS
                        + " ranks; those after them, such as " + of + ", are not read");
            }
        }
    }

    /**
     * The jobs announced in a directory.
     *
     * @param directory the directory of the announcements
     * @param checkpointers the checkpointers of this source's configuration
     * @param marked the names of the checkpointers that an announcement may name
     */
    public AnnouncedJobs(Path directory, Map<String, Checkpointer> checkpointers, Set<String> marked) {
        this.directory = directory;
        this.checkpointers = Map.copyOf(checkpointers);
        this.marked = Set.copyOf(marked);
        this.records = new MoveRecords(directory.resolve("moves"));
    }

    /** Creates the directories if they are missing. */
    @Override
    public void prepare() throws IOException {
        makeDirectory(directory);
        makeDirectory(records.directory());
        makeDirectory(jobs());
        for (Path parent = directory.toAbsolutePath(); parent != null; parent = parent.getParent()) {
            if (((Integer) Files.getAttribute(parent, "unix:mode") & OTHERS_MAY_ENTER) == 0) {
                LOG.warn("no user can announce a job in {}, since {} lets none in: chmod o+x it", jobs(), parent);
            }
        }
        // The start does not wait for the removal of many files.
        LogContext.thread(this::removeLeft, "ppmr-announcements").start();
    }

    @Override
    public void begins(JobName job, List<InetSocketAddress> targets, boolean withoutCluster) {
        records.begin(job);
    }

    @Override
    public void ended(JobName job, Optional<MigrationReport> report, List<InetSocketAddress> targets) {
        if (report.isPresent()) {
            records.end(job, report.get(), targets);
        } else {
            records.fail(job);
        }
    }

    private static void makeDirectory(Path path) throws IOException {
        Folders.create(path, Folders.PASSABLE);
        // Only the service may write here.
        Files.setAttribute(path, "unix:mode", 0755);
    }

    private Path jobs() {
        return directory.resolve("jobs");
    }

    /**
     * Creates the folder in which a user announces jobs, if it is missing.
     *
     * @param user the name of the user that the kernel reports
     * @return the folder
     */
    public synchronized Path folderOf(String user) throws IOException {
        int uid = Accounts.uidOf(user);
        Path folder = jobs().resolve(Integer.toUnsignedString(uid));
        if (!isUsers(folder)) {
            if (Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
                // A service crashed before it transferred the folder to its user.
                Path aside = jobs().resolve(ASIDE + UUID.randomUUID());
                Files.move(folder, aside);
                WorkDirectories.removeOrWarn(aside);
            }
            // The user gets only the folder of that name. Otherwise the user could fill another folder, which would
            // never be removed.
            Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(OPEN)));
            Files.setAttribute(folder, "unix:mode", 0755, LinkOption.NOFOLLOW_LINKS);
            Files.setAttribute(folder, "unix:uid", uid, LinkOption.NOFOLLOW_LINKS);
        }
        return folder;
    }

    /** Removes folders that a crashed service moved aside. */
    private void removeLeft() {
        try (DirectoryStream<Path> left = Files.newDirectoryStream(jobs(), ASIDE + "*")) {
            left.forEach(WorkDirectories::removeOrWarn);
        } catch (IOException | DirectoryIteratorException e) {
            LOG.warn("what earlier services left in {} stays there: {}", jobs(), e.getMessage());
        }
    }

    /** Returns true if the folder belongs to the user whose number is its name. */
    private static boolean isUsers(Path folder) throws IOException {
        try {
            Map<String, Object> is = Files.readAttributes(folder, "unix:uid,isDirectory", LinkOption.NOFOLLOW_LINKS);
            return (boolean) is.get("isDirectory")
                    && folder.getFileName().toString().equals(Integer.toUnsignedString((int) is.get("uid")));
        } catch (NoSuchFileException none) {
            LOG.trace("no folder {}", folder, none);
            return false;
        }
    }

    /** Returns the folders of all users, by their numbers. */
    private List<Path> users() {
        List<Path> users = new ArrayList<>();
        try (DirectoryStream<Path> folders = Files.newDirectoryStream(jobs())) {
            for (Path folder : folders) {
                if (folder.getFileName().toString().matches(UID) && isUsers(folder)) {
                    users.add(folder);
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            LOG.warn("the announced jobs in {} cannot be listed: {}", jobs(), e.getMessage());
        }
        users.sort(Comparator.comparingLong(
                folder -> Long.parseLong(folder.getFileName().toString())));
        return users;
    }

    /**
     * Lists the jobs with a running rank. The users alternate, so that one user's many jobs do not delay another's
     * first.
     */
    @Override
    public List<JobName> names() {
        List<List<JobName>> ofUsers = users().stream().map(this::namesIn).toList();
        int most = ofUsers.stream().mapToInt(List::size).max().orElse(0);
        List<JobName> turns = new ArrayList<>();
        for (int turn = 0; turn < most; turn++) {
            for (List<JobName> names : ofUsers) {
                if (turn < names.size()) {
                    turns.add(names.get(turn));
                }
            }
        }
        return turns;
    }

    /** Lists the jobs of one user that have a running rank. */
    @Override
    public List<JobName> names(String user) {
        return users().stream()
                .filter(folder -> belongsTo(folder, user))
                .flatMap(folder -> namesIn(folder).stream())
                .toList();
    }

    private List<JobName> namesIn(Path users) {
        int uid = Integer.parseUnsignedInt(users.getFileName().toString());
        List<JobName> names = new ArrayList<>();
        Share share = new Share();
        int looked = 0;
        try (UserPath held = UserPath.hold(users);
                DirectoryStream<Path> folders = Files.newDirectoryStream(held.directory())) {
            for (Path folder : folders) {
                String name = folder.getFileName().toString();
                if (++looked > MAX_JOBS) {
                    log.write("too many", users + " has more than " + MAX_JOBS + " names; further ones are not read");
                    break;
                }
                if (name.matches(NAME) && hasRanks(new JobName(uid, name), share)) {
                    names.add(new JobName(uid, name));
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            log.write("not listed", "the announced jobs in " + users + " cannot be listed: " + e.getMessage());
        }
        names.sort(Comparator.comparing(JobName::name));
        return names;
    }

    private boolean hasRanks(JobName name, Share share) {
        try {
            return find(name, share).isPresent();
        } catch (RequestException e) {
            log.write("wrong", e.getMessage());
            return false;
        }
    }

    /** Returns true if a user announced a job by that short or full name. */
    @Override
    public boolean isOwnedBy(String name, String user) {
        return ownersOf(name).stream().anyMatch(folder -> belongsTo(folder, user));
    }

    private static boolean belongsTo(Path folder, String user) {
        try {
            return Files.getOwner(folder, LinkOption.NOFOLLOW_LINKS).getName().equals(user);
        } catch (IOException e) {
            LOG.debug("no job is announced in {}", folder, e);
            return false;
        }
    }

    /** Returns the folders of the users who announced a job by that name. */
    private List<Path> ownersOf(String wanted) {
        Matcher full = FULL_NAME.matcher(wanted);
        String name = full.matches() ? full.group(2) : wanted;
        if (!name.matches(NAME)) {
            return List.of();
        }
        return users().stream()
                .filter(folder ->
                        !full.matches() || folder.getFileName().toString().equals(full.group(1)))
                .filter(folder -> Files.isDirectory(folder.resolve(name), LinkOption.NOFOLLOW_LINKS))
                .toList();
    }

    @Override
    public List<JobName> named(String wanted, Optional<String> onlyOf) {
        String name = wanted.substring(wanted.indexOf('/') + 1);
        return ownersOf(wanted).stream()
                .filter(folder -> onlyOf.isEmpty() || belongsTo(folder, onlyOf.get()))
                .map(folder -> new JobName(
                        Integer.parseUnsignedInt(folder.getFileName().toString()), name))
                .toList();
    }

    /**
     * Returns a job with those of its announced ranks that still run, or empty if no job has that name.
     *
     * @throws RequestException if the announcement has a mistake
     */
    @Override
    public Optional<ConfiguredJob> find(JobName job) throws RequestException {
        return find(job, new Share());
    }

    private Optional<ConfiguredJob> find(JobName job, Share share) throws RequestException {
        String name = job.name();
        if (!name.matches(NAME)) {
            return Optional.empty();
        }
        Path users = jobs().resolve(Integer.toUnsignedString(job.uid()));
        Path folder = users.resolve(name);
        try (UserPath parent = UserPath.hold(users);
                UserPath held = parent.entry(Path.of(name))) {
            JobUser user = held.owner();
            if (parent.owner().uid() != job.uid() || user.uid() != job.uid()) {
                throw wrong(folder, "does not belong to user " + Integer.toUnsignedString(job.uid()));
            }
            List<Announcement> ranks = ranks(held, user, share);
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
                    Optional.empty(),
                    Map.of()));
        } catch (NoSuchFileException e) {
            LOG.debug("no job {} is announced", name, e);
            return Optional.empty();
        } catch (IOException e) {
            throw wrong(folder, "cannot be read: " + e.getMessage());
        }
    }

    private record Announcement(int rank, int pid, String checkpointer, List<InetSocketAddress> spares) {}

    private List<Announcement> ranks(UserPath folder, JobUser user, Share share) throws IOException, RequestException {
        List<Announcement> ranks = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder.directory(), "rank-*")) {
            for (Path file : files) {
                share.take(folder.path());
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

    /** Returns a rank, or empty if its process ended. */
    private Optional<Announcement> rank(UserPath folder, Path name, JobUser user) throws IOException, RequestException {
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
        Optional<ProcessIdentity> process;
        try {
            process = processes.find(rank.pid()).filter(found -> found.startTimeTicks() == rank.startTicks());
        } catch (UncheckedIOException e) {
            throw wrong(file, e.getMessage());
        }
        int number = Integer.parseInt(file.getFileName().toString().substring("rank-".length()));
        return process.map(found -> new Announcement(number, found.pid(), rank.checkpointer(), rank.spares()));
    }

    private static RequestException wrong(Path path, String what) {
        return new RequestException("the announced job " + path + ": " + what);
    }
}
