package io.ppmr.daemon.jobs;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.UserPath;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.daemon.pods.Pods;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.os.Accounts;
import io.ppmr.os.Folders;
import io.ppmr.os.LogContext;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.RareLog;
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
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The jobs that users have announced on this node. {@code DIRECTORY/jobs} is the service's own. Each user who has asked
 * for it has a folder {@code UID} in it, which the service has made and given to that user, so nobody else can have
 * it. In it is a folder for each job, with a file {@code rank-N} for each rank that runs: its PID, when that process
 * started (proc(5), field 22, so that a stale file names nobody else's process), its checkpointer and, where the job
 * has some, its own spare nodes, of which the first is asked.
 *
 * <p>A user can have no more moved than the user's own: everything must belong to the user whose number the folder has,
 * symbolic links are not followed, and the processes are checked when the migration starts. A user has a share: so many
 * jobs and ranks are looked at, and no more. Immutable; for any thread; everything is read anew at each call.
 */
public final class AnnouncedJobs {
    private static final Logger LOG = LoggerFactory.getLogger(AnnouncedJobs.class);
    private static final String NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
    private static final String UID = "0|[1-9]\\d{0,9}";
    private static final Pattern FULL_NAME = Pattern.compile("(" + UID + ")/(" + NAME + ")");
    /** Begins the names that are no user's folder. */
    private static final String ASIDE = ".";

    private static final String OPEN = "rwxr-xr-x";
    private static final String RANK_FILE = "rank-(0|[1-9]\\d{0,8})";
    private static final int OTHERS_MAY_ENTER = 01;
    /** Of one user; as many as a large node has processors. */
    static final int MAX_JOBS = 256;
    /** Of one user, in all jobs together. */
    static final int MAX_RANKS = 4096;

    private final Optional<Path> directory;
    private final Map<String, Checkpointer> checkpointers;
    private final Set<String> marked;
    private final Optional<PodJobs> pods;
    private final ProcessTable processes = new ProcessTable();
    private final RareLog log = new RareLog(LOG::warn);

    /**
     * Names an announced job: by its user, too, since two users may call theirs by the same name.
     *
     * @param uid whose
     * @param name as the user calls it
     */
    public record Name(int uid, String name) {
        @Override
        public String toString() {
            return uid + "/" + name;
        }
    }

    /** Counts the files of one user that are still looked at. */
    private static final class Share {
        private int ranks = MAX_RANKS;

        void take(Path of) throws IOException {
            if (--ranks < 0) {
                throw new IOException("the user has announced more than " + MAX_RANKS
                        + " ranks; those after them, such as " + of + ", are not looked at");
            }
        }
    }

    /**
     * @param directory where they are announced; empty if this source takes none
     * @param checkpointers those of this source's configuration
     * @param marked the names of those that an announcement may name
     */
    public AnnouncedJobs(Optional<Path> directory, Map<String, Checkpointer> checkpointers, Set<String> marked) {
        this(directory, checkpointers, marked, Optional.empty());
    }

    private AnnouncedJobs(
            Optional<Path> directory,
            Map<String, Checkpointer> checkpointers,
            Set<String> marked,
            Optional<PodJobs> pods) {
        this.pods = pods;
        this.directory = directory;
        this.checkpointers = Map.copyOf(checkpointers);
        this.marked = Set.copyOf(marked);
    }

    /** A source that takes none. */
    public static AnnouncedJobs none() {
        return new AnnouncedJobs(Optional.empty(), Map.of(), Set.of());
    }

    /** Gives the same with the pods of this node, which are announced by being there. */
    public AnnouncedJobs with(Pods ofNode) {
        return new AnnouncedJobs(directory, checkpointers, marked, Optional.of(new PodJobs(ofNode, checkpointers)));
    }

    /** Returns true if jobs can be announced at all. */
    public boolean taken() {
        return directory.isPresent();
    }

    /** Makes the directories, unless they are there, and gives where the records go. */
    public MoveRecords prepare() throws IOException {
        if (directory.isEmpty()) {
            return new MoveRecords(Optional.empty());
        }
        Path moves = directory.get().resolve("moves");
        makeDirectory(directory.get());
        makeDirectory(moves);
        makeDirectory(jobs());
        for (Path parent = directory.get().toAbsolutePath(); parent != null; parent = parent.getParent()) {
            if (((Integer) Files.getAttribute(parent, "unix:mode") & OTHERS_MAY_ENTER) == 0) {
                LOG.warn("no user can announce a job in {}, since {} lets none in: chmod o+x it", jobs(), parent);
            }
        }
        // An earlier release could leave so many that to remove them takes longer than a start may.
        LogContext.thread(this::removeLeft, "ppmr-announcements").start();
        return new MoveRecords(Optional.of(moves));
    }

    private static void makeDirectory(Path path) throws IOException {
        Folders.create(path, Folders.PASSABLE);
        // An earlier release let everybody write in it: whoever could, cannot any more.
        Files.setAttribute(path, "unix:mode", 0755);
    }

    private Path jobs() {
        return directory.orElseThrow().resolve("jobs");
    }

    /**
     * Makes the folder in which a user announces jobs, unless it is there.
     *
     * @param user by the name that the kernel's number stands for
     * @return the folder
     */
    public synchronized Path folderOf(String user) throws IOException {
        if (directory.isEmpty()) {
            throw new IOException("this source takes no announced jobs: announcements is not in its configuration");
        }
        int uid = Accounts.uidOf(user);
        Path folder = jobs().resolve(Integer.toUnsignedString(uid));
        if (!isUsers(folder)) {
            if (Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
                // From the time when everybody could write here, or of a service that died before it gave it away.
                Path aside = jobs().resolve(ASIDE + UUID.randomUUID());
                Files.move(folder, aside);
                WorkDirectories.removeOrWarn(aside);
            }
            // A user is given nothing but the folder of that name: what else the user had could be filled, and stay.
            Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(OPEN)));
            Files.setAttribute(folder, "unix:mode", 0755, LinkOption.NOFOLLOW_LINKS);
            Files.setAttribute(folder, "unix:uid", uid, LinkOption.NOFOLLOW_LINKS);
        }
        return folder;
    }

    /** Removes what was moved aside by a service that died meanwhile, or left behind by an earlier release. */
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

    /** The folders of all users, by their numbers. */
    private List<Path> users() {
        if (directory.isEmpty()) {
            return List.of();
        }
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

    /** All that have a rank which runs. The users take turns, so nobody's many jobs come before another's first. */
    public List<Name> names() {
        List<List<Name>> ofUsers = users().stream().map(this::namesIn).toList();
        int most = ofUsers.stream().mapToInt(List::size).max().orElse(0);
        List<Name> turns = new ArrayList<>();
        for (int turn = 0; turn < most; turn++) {
            for (List<Name> names : ofUsers) {
                if (turn < names.size()) {
                    turns.add(names.get(turn));
                }
            }
        }
        pods.ifPresent(jobs -> turns.addAll(jobs.names()));
        return turns;
    }

    /** The same of one user. */
    public List<Name> names(String user) {
        return Stream.concat(
                        users().stream()
                                .filter(folder -> belongsTo(folder, user))
                                .flatMap(folder -> namesIn(folder).stream()),
                        pods.stream().flatMap(jobs -> jobs.names(user).stream()))
                .toList();
    }

    private List<Name> namesIn(Path users) {
        int uid = Integer.parseUnsignedInt(users.getFileName().toString());
        List<Name> names = new ArrayList<>();
        Share share = new Share();
        int looked = 0;
        try (UserPath held = UserPath.hold(users);
                DirectoryStream<Path> folders = Files.newDirectoryStream(held.directory())) {
            for (Path folder : folders) {
                String name = folder.getFileName().toString();
                if (++looked > MAX_JOBS) {
                    log.say(
                            "too many",
                            users + " has more than " + MAX_JOBS + " names; further ones are not looked at");
                    break;
                }
                if (name.matches(NAME) && hasRanks(new Name(uid, name), share)) {
                    names.add(new Name(uid, name));
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            log.say("not listed", "the announced jobs in " + users + " cannot be listed: " + e.getMessage());
        }
        names.sort(Comparator.comparing(Name::name));
        return names;
    }

    private boolean hasRanks(Name name, Share share) {
        try {
            return find(name, share).isPresent();
        } catch (RequestException e) {
            log.say("wrong", e.getMessage());
            return false;
        }
    }

    /** Returns true if a user has announced a job by that name, the short or the full one. */
    public boolean isOwnedBy(String name, String user) {
        return name != null
                && (ownersOf(name).stream().anyMatch(folder -> belongsTo(folder, user))
                        || pods.filter(jobs ->
                                        !jobs.named(name, Optional.of(user)).isEmpty())
                                .isPresent());
    }

    private static boolean belongsTo(Path folder, String user) {
        try {
            return Files.getOwner(folder, LinkOption.NOFOLLOW_LINKS).getName().equals(user);
        } catch (IOException e) {
            LOG.debug("nobody announces a job in {}", folder, e);
            return false;
        }
    }

    /** The folders of those users who have announced a job by that name. */
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

    /**
     * The full name of the job that is meant; empty if there is none.
     *
     * @param wanted what it is called, with or without its user
     * @param onlyOf the user whose jobs alone are meant; empty for all users'
     * @throws RequestException if several users' jobs have that name
     */
    public Optional<Name> named(String wanted, Optional<String> onlyOf) throws RequestException {
        String name = wanted.substring(wanted.indexOf('/') + 1);
        Stream<Name> announced = ownersOf(wanted).stream()
                .filter(folder -> onlyOf.isEmpty() || belongsTo(folder, onlyOf.get()))
                .map(folder ->
                        new Name(Integer.parseUnsignedInt(folder.getFileName().toString()), name));
        List<Name> meant = Stream.concat(announced, pods.stream().flatMap(jobs -> jobs.named(wanted, onlyOf).stream()))
                .distinct()
                .toList();
        if (meant.size() > 1) {
            throw new RequestException("several users have announced a job " + wanted + ": name one of "
                    + meant.stream().map(Name::toString).collect(Collectors.joining(", ")));
        }
        return meant.stream().findFirst();
    }

    /**
     * A job as it is announced now, with those of its ranks that still run; empty if there is none of that name.
     *
     * @throws RequestException if it is announced wrongly
     */
    public Optional<ConfiguredJob> find(Name job) throws RequestException {
        Optional<ConfiguredJob> announced = find(job, new Share());
        return announced.isEmpty() && pods.isPresent() ? pods.get().find(job) : announced;
    }

    private Optional<ConfiguredJob> find(Name job, Share share) throws RequestException {
        String name = job.name();
        if (directory.isEmpty() || !name.matches(NAME)) {
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

    /** A rank; empty where its process has ended. */
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
