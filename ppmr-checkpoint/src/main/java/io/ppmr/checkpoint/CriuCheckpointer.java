package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.checkpoint.limits.CriuChecks;
import io.ppmr.checkpoint.limits.CriuChecks.SandboxRule;
import io.ppmr.linux.Command;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.LibC;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.ReadingMode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Checkpoint/Restore In Userspace, by criu(8). It writes about a dozen image files for each rank, which are read in any
 * order. inventory.img is written last and opened first.
 *
 * <p>In its <i>streamed</i> form (CRIU's lazy pages) the images contain everything except a process's private memory.
 * That memory follows as a stream. It goes into the copy while the original, stopped by SIGSTOP before, is still read.
 * Neither runs in the meantime. {@code ppmr-pages} passes the pages on at both ends, and succeeds when each page of the
 * images was delivered. {@code docs/internals/criu.md} has the order of the steps.
 *
 * <p>A restored process has its old PIDs, so each rank is restored in its own PID namespace, whose init outlives this
 * service. A process in such a namespace is dumped from inside it, because CRIU does not dump a PID namespace without
 * its init. {@code ppmr-launch --directory} enters the image directory. It opens the directory before the namespaces
 * are changed, so the node's mount need not be visible inside.
 *
 * <p>As the job's user it runs in CRIU's unprivileged mode with CAP_CHECKPOINT_RESTORE as its only capability. It opens
 * what that user can open. Other processes cannot trace it, because it has a capability that they do not have. CRIU
 * gives each thread the capabilities in the image, and the image belongs to the user, so no thread may keep that
 * capability. The rank's PID namespace contains all restored processes, so all of them are checked.
 */
record CriuCheckpointer(String name, CheckpointerSettings.Criu settings, ToolKit kit, Memory memory)
        implements Checkpointer {
    /**
     * The way of the job's private memory.
     *
     * @param way the way
     * @param storeBytes limit of the stores of precopied memory of all ranks at the target
     */
    record Memory(MemoryWay way, long storeBytes) {
        static final Memory IMAGES = new Memory(MemoryWay.IMAGES, 0);
        static final Memory STREAMED = new Memory(MemoryWay.STREAMED, 0);
    }

    private static final Logger LOG = LoggerFactory.getLogger(CriuCheckpointer.class);
    private static final int CAP_SYS_ADMIN = 21;
    private static final int CAP_SYS_RESOURCE = 24;
    private static final int CAP_CHECKPOINT_RESTORE = 40;
    private static final int ALL_CAPABILITIES = 64;
    /** Pattern of a library for LD_PRELOAD, which blanks and colons separate, ld.so(8). */
    private static final String PRELOADABLE = "[^\\s:]+";

    private static final Path YAMA = Path.of("/proc/sys/kernel/yama/ptrace_scope");
    /** The user for a trial of {@code criu check}, which owns nothing. */
    private static final JobUser NOBODY = new JobUser(65_534, 65_534);

    /** The names of the streamed form's files, from ppmr-pages. */
    private static final String PAGES_LIST = "pages.list";

    private static final String PAGES_STREAM = "pages.stream";
    private static final String ROUNDS_STREAM = "rounds.stream";

    /**
     * Arguments with which a failed checkpoint with lazy pages leaves network locks or remapped links in the kernel.
     */
    private static final Set<String> LEAVING_TRACES = Set.of("--tcp-established", "--link-remap", "--external");

    private static final List<String> EVENTS_OF_MEMORY = List.of("check", "--feature", "uffd-noncoop");
    private static final Path LIMITS = Path.of("/proc/self/limits");
    private static final int HARD_LIMIT_FIELD = 4;
    /** Maximum number of other descriptors that CRIU has open. */
    private static final long OTHER_DESCRIPTORS = 1024;

    private static final long MIB = 1 << 20;
    private static final Path PIPE_LIMIT = Path.of("/proc/sys/fs/pipe-max-size");
    /** Size of the pipes in which CRIU's page server holds the pages. */
    private static final long PIPE_BYTES = 4 << 20;

    private static final Duration CHECK_LIMIT = Duration.ofSeconds(20);

    /** The message that CRIU 4.1 logs, and then ignores, when shared memory's pages end too early. */
    private static final String UNREAD_PAGES = "Can't read mapping page";

    /**
     * The message that CRIU 4.1 logs when a restored thread fails at its last step. CRIU then waits for that thread for
     * ever.
     */
    private static final String GIVEN_UP = "BUG at ";
    /** The file in which the stores of an attempt's ranks count their pages. */
    private static final String STORE_ACCOUNT = "store-account";

    /** The value of CRIU_FAULT with which CRIU stops processes at system calls instead of hardware breakpoints. */
    private static final String WITHOUT_BREAKPOINTS = "130";

    private static final int LOG_BYTES = 1 << 16;
    private static final long SCAN_INTERVAL_NS = 200_000_000;
    /** Scanning all processes takes at most this fraction (1/n) of one core. */
    private static final int SCAN_SHARE = 20;

    private static final Pattern VERSION = Pattern.compile("(\\d{1,9})\\.(\\d{1,9})");

    @Override
    public Availability probe() {
        Optional<String> missing = kit.programs().missing();
        if (missing.isPresent()) {
            return Availability.lacking(
                    missing.get(), "build the project, or set " + NativePrograms.DIRECTORY_PROPERTY);
        }
        KernelFeatures own = KernelFeatures.here();
        if (!own.has(Feature.NSPID)) {
            return Availability.lacking(
                    "CRIU cannot move ranks here, because it restores their PIDs in PID namespaces: "
                            + own.describeMissing(Feature.NSPID),
                    "use blcr or a command on this node");
        }
        String program = settings.keys().program().get(0);
        if (ToolKit.find(program).isEmpty()) {
            return Availability.lacking(program + " is not installed", CriuInstaller.remedy(System.getenv()));
        }
        Optional<String> version = kit.versions().of(settings.keys().program());
        if (version.isEmpty()) {
            return Availability.lacking(
                    String.join(" ", settings.keys().program()) + " does not start",
                    "start it by hand to find the cause");
        }
        String kernel = System.getProperty("os.version");
        if (compare(version.get(), 4, 0) < 0 && compare(kernel, 6, 13) >= 0) {
            return Availability.lacking(
                    "CRIU " + version.get() + " does not restore on kernel " + kernel,
                    "use CRIU 4 or later: " + CriuInstaller.remedy(System.getenv()));
        }
        if (!kit.starter().givesCapability(CAP_SYS_ADMIN)) {
            return Availability.lacking("this service is not root", "run it as root: namespaces and CRIU need that");
        }
        if (settings.asJobUser() && !kit.starter().givesCapability(CAP_CHECKPOINT_RESTORE)) {
            return Availability.lacking(
                    "CRIU cannot run as the job's user here: this service has no CAP_CHECKPOINT_RESTORE",
                    "use a kernel from Linux 5.9 on and give the service that capability, or set as_job_user = false");
        }
        Optional<String> defect = selfCheck();
        if (defect.isPresent()) {
            return Availability.lacking(
                    "criu check fails: " + defect.get(), "set what it names right (in a network namespace: lo up)");
        }
        String limit = kit.starter().givesCapability(CAP_SYS_RESOURCE)
                ? ""
                : "; without CAP_SYS_RESOURCE it reads users' resource limits out of /proc (LD_PRELOAD)";
        if (settings.asJobUser()) {
            limit = ", as the job's user" + traceLimit();
        }
        StreamedForm form = streamedForm();
        String pages = form.form().isPresent() ? "; pages can be streamed" : "; pages go as images: " + form.whyNot();
        return Availability.present("CRIU " + version.get() + " on kernel " + kernel + limit + breakpoints() + pages);
    }

    /**
     * Returns a note if CRIU cannot use hardware breakpoints. It would wait for ever for a process that they do not
     * stop.
     */
    private String breakpoints() {
        try {
            List<String> probe = started(kit.launch(Optional.empty()));
            probe.addAll(List.of("printenv", "CRIU_FAULT"));
            return kit.starter().run(probe, CHECK_LIMIT).exitCode() == 0
                    ? "; hardware breakpoints stop no process on this machine, so CRIU goes without (CRIU_FAULT="
                            + WITHOUT_BREAKPOINTS + ")"
                    : "";
        } catch (CheckpointException e) {
            return "; hardware breakpoints could not be tested: " + e.getMessage();
        }
    }

    /** Returns the words before CRIU that disable breakpoints if they do not work. */
    private static List<String> started(List<String> launch) {
        List<String> words = new ArrayList<>(launch);
        words.addAll(1, List.of("--breakpoints", WITHOUT_BREAKPOINTS));
        return words;
    }

    /**
     * Returns a note about Yama, which lets an ordinary user trace only descendants. That user's CRIU is no ancestor of
     * the job.
     */
    private static String traceLimit() {
        try {
            return Files.exists(YAMA) && !Files.readAllLines(YAMA).equals(List.of("0"))
                    ? "; kernel.yama.ptrace_scope is not 0 here, so it can restore and cannot checkpoint"
                    : "";
        } catch (IOException e) {
            return "; " + YAMA + " cannot be read (" + e.getMessage() + ")";
        }
    }

    /** Returns the objections of {@code criu check} to this kernel and these namespaces. It takes about 50 ms. */
    private Optional<String> selfCheck() {
        try {
            List<String> command = launched(settings.asJobUser() ? Optional.of(NOBODY) : Optional.empty());
            command.addAll(settings.keys().program());
            command.add("check");
            command.addAll(mode(settings.asJobUser()));
            Command.CommandResult result = kit.starter().run(command, CHECK_LIMIT);
            return result.exitCode() == 0
                    ? Optional.empty()
                    : Optional.of(result.output().replaceAll("\\R", " | "));
        } catch (CheckpointException e) {
            return Optional.of(e.getMessage());
        }
    }

    /** Compares the first two numbers in a version with the given ones. A text without numbers counts as newer. */
    static int compare(String version, int major, int minor) {
        Matcher matcher = VERSION.matcher(version);
        if (!matcher.find()) {
            return 1;
        }
        int byMajor = Integer.compare(Integer.parseInt(matcher.group(1)), major);
        return byMajor != 0 ? byMajor : Integer.compare(Integer.parseInt(matcher.group(2)), minor);
    }

    @Override
    public ReadingMode readingMode() {
        return ReadingMode.RETAINED;
    }

    @Override
    public boolean streams(String name) {
        return switch (memory.way()) {
            case IMAGES -> false;
            case STREAMED -> name.equals(PAGES_STREAM);
            case PRECOPIED -> name.equals(ROUNDS_STREAM);
        };
    }

    private boolean streamed() {
        return memory.way() != MemoryWay.IMAGES;
    }

    @Override
    public boolean isPrecopied() {
        return memory.way() == MemoryWay.PRECOPIED;
    }

    @Override
    public List<String> expectedNames(int rank) {
        return List.of(
                switch (memory.way()) {
                    case IMAGES -> "inventory.img";
                    case STREAMED -> PAGES_LIST;
                    case PRECOPIED -> ROUNDS_STREAM;
                });
    }

    @Override
    public List<String> completionNames(int rank) {
        return streamed() ? List.of() : List.of("inventory.img");
    }

    @Override
    public Optional<String> completionMarkerName() {
        return streamed() ? Optional.of(PAGES_LIST) : Optional.empty();
    }

    @Override
    public StreamedForm streamedForm() {
        boolean required = settings.keys().pages() == PagePolicy.STREAMED
                || settings.keys().pages() == PagePolicy.PRECOPIED;
        return whyNotStreamed()
                .map(why -> StreamedForm.none(required, why))
                .orElseGet(() -> new StreamedForm(
                        Optional.of(new CriuCheckpointer(name, settings, kit, Memory.STREAMED)),
                        required,
                        "",
                        mostBytes()));
    }

    @Override
    public boolean prefersPreCopy() {
        return settings.keys().pages() == PagePolicy.PRECOPIED;
    }

    /** Has ppmr-pages try it, since distributions have parts of what newer kernels can. */
    @Override
    public Optional<String> whyNotPreCopied() {
        if (settings.keys().pages() == PagePolicy.STREAMED) {
            return Optional.of("the configuration has pages = \"streamed\"");
        }
        if (!settings.keys().externalSockets().isEmpty()) {
            return Optional.of("external_sockets are released when the job is stopped, before CRIU is started");
        }
        return kit.versions()
                .failure(List.of(kit.programs().pages().toString()), List.of("check-rounds"), kit.starter());
    }

    @Override
    public Optional<Checkpointer> precopiedForm(long storeBytes) {
        return whyNotStreamed().isPresent()
                ? Optional.empty()
                : Optional.of(new CriuCheckpointer(name, settings, kit, new Memory(MemoryWay.PRECOPIED, storeBytes)));
    }

    @Override
    public PreCopy preCopy(CheckpointTask task) throws CheckpointException {
        requireReadableLimits(task.rank(), task.user());
        kit.requireTree(task);
        String tool = "criu-dump-" + task.rank();
        Path log = kit.freshFile(task.workDirectory(), Optional.empty(), tool + ".log");
        Path orders = kit.freshFile(task.workDirectory(), Optional.empty(), PreCopy.ORDERS);
        List<String> command = dump(task, log, Optional.empty(), List.of());
        return PreCopy.of(
                ToolProcess.start(tool, command, task.workDirectory(), Optional.empty(), kit), orders, log, kit);
    }

    /**
     * Returns a reason if a thread's stack pointer is at the first byte of a page. CRIU then takes every page of the
     * process for its stack.
     */
    @Override
    public Optional<String> whyNotStreamed(ProcessIdentity process) {
        return CriuLimits.stackAtPageBoundary(process)
                .map(thread -> thread + " has its stack pointer at the first byte of a page now, and for such a process"
                        + " CRIU (to 4.2) writes all memory into the images");
    }

    private Optional<String> whyNotStreamed() {
        if (settings.keys().pages() == PagePolicy.IMAGES) {
            return Optional.of("the configuration has pages = \"images\"");
        }
        if (settings.asJobUser()) {
            return Optional.of("CRIU runs as the job's user here (as_job_user), and streams pages only as root");
        }
        if (settings.namespaces() == NamespacePolicy.NEVER) {
            return Optional.of(
                    "ranks have no namespace of their own here (namespaces = \"never\"). Such a namespace ends a"
                            + " half-restored"
                            + " copy when the service dies");
        }
        String machine = System.getProperty("os.arch");
        if (!machine.equals("amd64")) {
            return Optional.of("pages are streamed only on x86-64, and this is " + machine);
        }
        for (String argument : settings.keys().dumpArguments()) {
            if (LEAVING_TRACES.contains(argument.split("=", 2)[0])) {
                return Optional.of("with " + argument + " in dump_arguments a checkpoint that fails while pages are"
                        + " streamed leaves traces in the kernel");
            }
        }
        String version = kit.versions().of(settings.keys().program()).orElse("");
        if (version.isEmpty()) {
            return Optional.of(
                    String.join(" ", settings.keys().program()) + " reports no version, so CRIU cannot be run here");
        }
        if (!VERSION.matcher(version).find() || compare(version, 4, 0) < 0 || compare(version, 4, 2) > 0) {
            return Optional.of("this CRIU (" + version + ") is not known to hand over its pages as 4.0 to 4.2 do");
        }
        Optional<String> failure = kit.versions().failure(settings.keys().program(), EVENTS_OF_MEMORY, kit.starter());
        return failure.isPresent()
                ? Optional.of("CRIU cannot have the kernel report events of a copy's memory ("
                        + String.join(" ", EVENTS_OF_MEMORY) + ": " + failure.get() + ")")
                : whyPipesAreTooSmall();
    }

    /**
     * Returns the memory that CRIU can serve. It holds these pages in pipes with two descriptors each. If permitted, it
     * raises its own limit of descriptors, and the size of a pipe. Otherwise a pipe holds 1 MiB.
     */
    private long mostBytes() {
        if (kit.starter().givesCapability(CAP_SYS_RESOURCE)) {
            return Long.MAX_VALUE;
        }
        try {
            String line = Files.readAllLines(LIMITS).stream()
                    .filter(one -> one.startsWith("Max open files"))
                    .findFirst()
                    .orElse("");
            String[] words = line.split("\\s+", -1);
            long hard = words.length > HARD_LIMIT_FIELD ? Long.parseLong(words[HARD_LIMIT_FIELD]) : 0;
            return Math.max(0, hard - OTHER_DESCRIPTORS) / 2 * MIB;
        } catch (IOException | NumberFormatException e) {
            return 0;
        }
    }

    private Optional<String> whyPipesAreTooSmall() {
        if (kit.starter().givesCapability(CAP_SYS_RESOURCE)) {
            return Optional.empty();
        }
        try {
            // The file is read by lines, because a second read of such a file returns nothing.
            long limit = Long.parseLong(Files.readAllLines(PIPE_LIMIT).get(0).strip());
            return limit >= PIPE_BYTES
                    ? Optional.empty()
                    : Optional.of("pipes may have " + limit + " bytes here, but without CAP_SYS_RESOURCE CRIU's page"
                            + " server needs " + PIPE_BYTES + ": give the service that capability, or set"
                            + " fs.pipe-max-size = " + PIPE_BYTES);
        } catch (IOException | NumberFormatException e) {
            return Optional.of(PIPE_LIMIT + " cannot be read (" + e.getMessage() + ")");
        }
    }

    @Override
    public Optional<String> whyNotFrom(String detail) {
        return whyNotFrom(detail, kit.versions().of(settings.keys().program()).orElse(""));
    }

    /**
     * Returns why this node's CRIU cannot read the source's images. An older CRIU would restore them without their
     * memory, and without an error.
     */
    static Optional<String> whyNotFrom(String there, String here) {
        return VERSION.matcher(there).find()
                        && VERSION.matcher(here).find()
                        && compare(there, 4, 2) >= 0
                        && compare(here, 4, 2) < 0
                ? Optional.of("the source has " + there + ", whose page maps this node's CRIU (" + here
                        + ") does not read: the copy would have no memory")
                : Optional.empty();
    }

    @Override
    public boolean restoresAsStopped() {
        return true;
    }

    @Override
    public RestartNeeds restartNeeds() {
        return new RestartNeeds(true, settings.namespaces() == NamespacePolicy.NEVER);
    }

    @Override
    public RunAs runAs() {
        return settings.runAs();
    }

    @Override
    public boolean checkpointsHeldRanks() {
        return true;
    }

    /** Returns false. criu runs beside the process and writes every file itself. A failed write ends only the dump. */
    @Override
    public boolean writesInProcess() {
        return false;
    }

    @Override
    public void requireReachable(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        ProcessSnapshot now = kit.table().snapshot();
        for (Map.Entry<Integer, RankPlace> rank : RankPlace.ofAll(roots, now).entrySet()) {
            List<ProcessIdentity> processes = now.tree(roots.get(rank.getKey()));
            rank.getValue().requireMounts(rank.getKey(), processes, kit.table());
        }
    }

    @Override
    public void requireMovable(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {
        CriuLimits.of(CriuLimits.Arguments.of(version(), settings.keys().dumpArguments()))
                .require(roots, user);
        sharing(false, sandboxRule()).require(roots, true);
    }

    @Override
    public void requireNothingShared(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        sharing(false, SandboxRule.PASS).requireHeld(roots);
    }

    private SharingCheck sharing(boolean pods, SandboxRule sandboxes) {
        CriuChecks looks = new CriuChecks(settings.keys().dumpArguments(), pods, sandboxes, blocksNetworks());
        return new SharingCheck(kit.table(), settings.keys().externalSockets(), looks);
    }

    /** CRIU blocks the traffic of a job's network namespace by iptables, unless an argument names another way. */
    private boolean blocksNetworks() {
        return !settings.asJobUser()
                && (settings.keys().dumpArguments().stream().anyMatch(argument -> argument.startsWith("--network-lock"))
                        || (ToolKit.find("iptables-restore").isPresent()
                                && ToolKit.find("ip6tables-restore").isPresent()));
    }

    private SandboxRule sandboxRule() {
        if (!LibC.hasLandlock()) {
            return SandboxRule.PASS;
        }
        return switch (settings.keys().landlock()) {
            case REFUSE -> SandboxRule.REFUSE;
            case WARN -> SandboxRule.WARN;
            case ALLOW -> SandboxRule.PASS;
        };
    }

    private String version() {
        return kit.versions().of(settings.keys().program()).orElse("");
    }

    @Override
    public void requireMovablePods(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {
        if (settings.asJobUser()) {
            throw new CheckpointException("checkpointer " + name + " runs as the job's user (as_job_user), but CRIU"
                    + " moves a pod only as root, because only root can make its namespaces and connections."
                    + " Remedy: name a"
                    + " checkpointer with as_job_user = false in the pod's template");
        }
        if (!LibC.listsTrackedConnections()) {
            throw new CheckpointException("checkpointer " + name + " cannot checkpoint the network of a pod: CRIU reads"
                    + " the kernel's tracked connections, and this kernel has no nf_conntrack_netlink"
                    + " and cannot load it. Remedy: modprobe nf_conntrack_netlink, or use a kernel that has it");
        }
        ProcessSnapshot now = kit.table().snapshot();
        for (Map.Entry<Integer, ProcessIdentity> rank : roots.entrySet()) {
            RankPlace.requireServicesUsers(rank.getKey(), now.tree(rank.getValue()), kit.table());
            requireReadableLimits(rank.getKey(), user);
        }
        CriuLimits.of(CriuLimits.Arguments.of(version(), settings.keys().dumpArguments())
                        .withConnections())
                .require(roots, user);
        sharing(true, SandboxRule.PASS).require(roots, false);
    }

    /**
     * Throws if limits are unreadable. Without CAP_SYS_RESOURCE, prlimit(2) fails for another user's processes. ppmr's
     * library reads them instead.
     */
    private void requireReadableLimits(int rank, JobUser user) throws CheckpointException {
        Path library = kit.programs().criuLimits();
        if (user.uid() != 0
                && !kit.starter().givesCapability(CAP_SYS_RESOURCE)
                && (!Files.isReadable(library) || !library.toString().matches(PRELOADABLE))) {
            throw new CheckpointException("rank " + rank + ": CRIU cannot read the resource limits of user "
                    + user.uid()
                    + "'s processes (prlimit(2)), because this service has no CAP_SYS_RESOURCE, and its replacement "
                    + library + " is missing or has a blank or a colon in its path."
                    + " Remedy: give the service that capability, or install ppmr in another directory");
        }
    }

    /** Returns all words that name programs which run in a rank's namespaces. */
    private List<String> programs() {
        List<String> words = new ArrayList<>(settings.keys().program());
        words.addAll(List.of(
                kit.programs().pages().toString(), kit.programs().criuLimits().toString(), "env"));
        return words;
    }

    /** Returns the words that start CRIU for a checkpoint. */
    private List<String> dumpProgram() {
        List<String> words = new ArrayList<>();
        limitsLibrary().ifPresent(library -> words.addAll(List.of("env", library)));
        words.addAll(settings.keys().program());
        return words;
    }

    /** Returns the variable with the library that reads resource limits, if CRIU cannot read them itself. */
    private Optional<String> limitsLibrary() {
        return kit.starter().givesCapability(CAP_SYS_RESOURCE)
                ? Optional.empty()
                : Optional.of("LD_PRELOAD=" + kit.programs().criuLimits());
    }

    /** Returns the user that it runs as; empty for root. Jobs of root are always moved as root. */
    private Optional<JobUser> runsAs(JobUser user) {
        return settings.asJobUser() && user.uid() != 0 ? Optional.of(user) : Optional.empty();
    }

    private List<String> launched(Optional<JobUser> user) throws CheckpointException {
        return started(user.isPresent() ? kit.launch(user.get(), CAP_CHECKPOINT_RESTORE) : kit.launch(user));
    }

    /**
     * Returns the arguments of CRIU's unprivileged mode. It must not read a configuration file from a home, which
     * belongs to the user.
     */
    private static List<String> mode(boolean asUser) {
        return asUser ? List.of("--unprivileged", "--no-default-config") : List.of();
    }

    /**
     * Requires full bounding sets. CRIU removes from a copy's bounding set what its original's lacked, even what is not
     * in there, and needs CAP_SETPCAP for that. Without it the restored threads fail one after the other.
     */
    private void requireFullBounds(CheckpointTask task) throws CheckpointException {
        int last;
        try {
            last = ProcStat.lastCapability();
        } catch (IOException e) {
            throw new CheckpointException("the kernel's last capability cannot be read: " + e, e);
        }
        long all = last + 1 >= ALL_CAPABILITIES ? -1L : (1L << (last + 1)) - 1;
        for (ProcessIdentity process : kit.requireTree(task)) {
            long missing = all & ~ProcStat.capabilities(Integer.toString(process.pid()), "CapBnd");
            if (missing != 0 && kit.table().isAlive(process)) {
                throw new CheckpointException("rank " + task.rank() + ": PID " + process.pid() + " lacks "
                        + Long.toHexString(missing) + " in its bounding set of capabilities (CapBnd, in hexadecimal),"
                        + " but CRIU as the job's user cannot make a copy that lacks it, which needs CAP_SETPCAP."
                        + " Remedy: start the job where no program removes capabilities from that set, or move it by a"
                        + " CRIU that runs as root (as_job_user = false, trusted_users at the target)");
            }
        }
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        String name = "criu-dump-" + task.rank();
        Optional<JobUser> user = runsAs(task.user());
        Path log = task.preCopy().isPresent()
                ? task.preCopy().get().log()
                : kit.freshFile(task.workDirectory(), user, name + ".log");
        CheckpointSteps steps = new CheckpointSteps(task, kit, log, Map.of(), CriuWords::explain);
        if (user.isPresent()) {
            requireFullBounds(task);
        } else {
            requireReadableLimits(task.rank(), task.user());
        }
        if (!streamed()
                && task.pod().isEmpty()
                && settings.keys().externalSockets().isEmpty()
                && task.whenStopped().isEmpty()) {
            return steps.start(name, dump(task, log, user, List.of()), user);
        }
        List<ProcessIdentity> stopped = steps.stop();
        try {
            if (task.whenStopped().isPresent()) {
                task.whenStopped().get().accept(stopped);
            }
            if (streamed()) {
                for (ProcessIdentity process : stopped) {
                    whyNotStreamed(process)
                            .ifPresent(why -> LOG.warn(
                                    "rank {}: {}, for which the target's staging must have room", task.rank(), why));
                }
            }
            if (task.preCopy().isPresent()) {
                List<Integer> pids = new ArrayList<>();
                for (ProcessIdentity process : stopped) {
                    pids.add(pidSeen(task, process));
                }
                return steps.watch(task.preCopy().get().dump(pids));
            }
            List<String> command = dump(task, log, user, stopped);
            command.addAll(new ExternalSockets(settings.keys().externalSockets()).release(task.rank(), stopped));
            return steps.start(name, command, user);
        } catch (CheckpointException | RuntimeException e) {
            steps.undo();
            throw e;
        }
    }

    /** A pod's tool waits in ppmr-launch: of its start, only the program's own is left for the pause. */
    @Override
    public PreparedCheckpoint prepare(CheckpointTask task) throws CheckpointException {
        if (streamed()
                || task.pod().isEmpty()
                || task.whenStopped().isPresent()
                || !settings.keys().externalSockets().isEmpty()) {
            return Checkpointer.super.prepare(task);
        }
        String name = "criu-dump-" + task.rank();
        Path log = kit.freshFile(task.workDirectory(), Optional.empty(), name + ".log");
        requireReadableLimits(task.rank(), task.user());
        Path file = kit.freshFile(task.workDirectory(), Optional.empty(), name + ".gate");
        List<String> command = dump(task, log, Optional.empty(), List.of());
        command.addAll(1, List.of("--gate", file.toString()));
        StartGate gate;
        try {
            gate = StartGate.create(file);
        } catch (IOException e) {
            throw new CheckpointException(
                    "a file of the checkpoint cannot be made: " + e.getMessage() + ". Remedy: make room in the work"
                            + " directory",
                    e);
        }
        try {
            ToolProcess tool = ToolProcess.start(name, command, task.workDirectory(), Optional.empty(), kit);
            return new WaitingDump(task, kit, log, gate, tool);
        } catch (CheckpointException | RuntimeException e) {
            WaitingDump.close(gate);
            throw e;
        }
    }

    /** A dump of a pod whose tool waits at its gate. */
    private record WaitingDump(CheckpointTask task, ToolKit kit, Path log, StartGate gate, ToolProcess tool)
            implements PreparedCheckpoint {
        @Override
        public List<ProcessIdentity> started() {
            return tool.identity().map(List::of).orElse(List.of());
        }

        @Override
        public RankCommand start() throws CheckpointException {
            CheckpointSteps steps = new CheckpointSteps(task, kit, log, Map.of(), CriuWords::explain);
            steps.stop();
            try {
                // It is watched before it begins, so that nothing of it runs unseen.
                RankCommand watched = steps.watch(tool);
                gate.open();
                return watched;
            } catch (IOException e) {
                steps.undo();
                throw new CheckpointException(
                        "rank " + task.rank() + ": its checkpoint could not be started: " + e.getMessage()
                                + ". Remedy: make room in the work directory",
                        e);
            }
        }

        @Override
        public void close() {
            close(gate);
        }

        private static void close(StartGate gate) {
            try {
                gate.close();
            } catch (IOException e) {
                LOG.warn("{} cannot be closed: {}", gate.file(), e.getMessage());
            }
        }
    }

    /** Returns the PID of a process in the namespace in which the tool runs. */
    private int pidSeen(CheckpointTask task, ProcessIdentity process) throws CheckpointException {
        return task.pod().isEmpty() && kit.livesElsewhere(task) ? kit.pidFor(task, process) : process.pid();
    }

    /** @param stopped for the streamed form, the rank's processes, which are stopped */
    private List<String> dump(CheckpointTask task, Path log, Optional<JobUser> user, List<ProcessIdentity> stopped)
            throws CheckpointException {
        // A pod's namespaces are dumped with it, from outside.
        boolean inside = task.pod().isEmpty() && kit.livesElsewhere(task);
        List<String> command = task.pod().isEmpty() ? kit.launchFor(task, launched(user), programs()) : launched(user);
        List<String> program = dumpProgram();
        if (!task.pod().isEmpty() && !streamed()) {
            // The launcher sets the variable: a program for that would take some milliseconds of the pause.
            program = settings.keys().program();
            limitsLibrary().ifPresent(library -> command.addAll(1, List.of("--env", library)));
        }
        String images = inside ? "." : task.imageDirectory().toString();
        if (streamed()) {
            command.addAll(Command.words(
                    "%s source --images %s --scratch %s --root %s",
                    kit.programs().pages(), images, log.getParent(), pidSeen(task, task.root())));
            if (isPrecopied()) {
                command.addAll(List.of("--rounds", Long.toString(task.root().startTimeTicks())));
            }
            for (ProcessIdentity process : stopped) {
                command.addAll(List.of("--pid", Integer.toString(pidSeen(task, process))));
            }
            command.add("--");
        }
        command.addAll(program);
        command.addAll(Command.words(
                "dump --tree %s --images-dir %s --work-dir %s --log-file %s --leave-stopped --manage-cgroups=ignore",
                inside ? kit.pidFor(task) : task.root().pid(), images, log.getParent(), log));
        if (!kit.table().leadsSession(task.root())) {
            command.add("--shell-job");
        }
        command.addAll(mode(user.isPresent()));
        command.addAll(settings.keys().dumpArguments());
        task.pod().ifPresent(pod -> command.addAll(pod.arguments()));
        if (streamed()) {
            command.addAll(List.of("--lazy-pages", "--ps-socket", "{socket}", "--status-fd", "{status}"));
        }
        return command;
    }

    @Override
    public RankCommand restart(RestartTask task) throws CheckpointException {
        String name = "criu-restore-" + task.rank();
        Optional<JobUser> user = runsAs(task.user());
        Path log = kit.freshFile(task.workDirectory(), user, name + ".log");
        Path pidFile = kit.freshFile(task.workDirectory(), user, name + ".pid");
        // A pod is a whole PID namespace, which CRIU makes with it.
        boolean without =
                settings.namespaces() == NamespacePolicy.NEVER || task.pod().isPresent();
        Optional<RankNamespace.Planned> namespace =
                without ? Optional.empty() : Optional.of(RankNamespace.Planned.of(kit, task, name));
        List<String> command = kit.launchInNew(namespace, task.imageDirectory(), launched(user), programs());
        String images = namespace.isPresent() ? "." : task.imageDirectory().toString();
        Path work = log.getParent();
        Optional<Path> pids = Optional.empty();
        Optional<Path> fillers = Optional.empty();
        if (streamed()) {
            pids = Optional.of(kit.freshFile(task.workDirectory(), user, name + ".pids"));
            command.addAll(Command.words(
                    "%s target --images %s --work %s --pids-file %s",
                    kit.programs().pages(), images, work, pids.get()));
            if (isPrecopied()) {
                command.addAll(List.of("--store", Long.toString(memory.storeBytes())));
                // The ranks' directories lie in that of the attempt, whose memory was admitted as a whole.
                command.addAll(List.of(
                        "--account",
                        task.workDirectory().resolveSibling(STORE_ACCOUNT).toString()));
            }
            if (fillsBehind(task) && (namespace.isPresent() || task.pod().isPresent())) {
                fillers = Optional.of(kit.freshFile(task.workDirectory(), user, name + ".fillers"));
                // A rank's program runs in the namespace that was made for that rank. A pod brings its own.
                command.addAll(List.of(
                        "--behind", fillers.get().toString(), "--namespace", namespace.isPresent() ? "own" : "other"));
            }
            command.add("--");
        }
        // Behind ppmr-pages, so that its store does not count as the pod's memory.
        task.pod().ifPresent(pod -> command.addAll(pod.before()));
        command.addAll(settings.keys().program());
        command.addAll(Command.words(
                "restore --images-dir %s --work-dir %s --log-file %s --pidfile %s --restore-detached --leave-stopped"
                        + " --shell-job --manage-cgroups=ignore",
                images, work, log, pidFile));
        command.addAll(mode(user.isPresent()));
        command.addAll(settings.keys().restoreArguments());
        task.pod().ifPresent(pod -> command.addAll(pod.arguments()));
        if (streamed()) {
            command.add("--lazy-pages");
        }
        return new Steps(task, kit, namespace, new RestoreFiles(log, pidFile, pids, fillers), user.isPresent())
                .start(name, command, user);
    }

    private boolean fillsBehind(RestartTask task) {
        return isPrecopied()
                && settings.keys().fillBehind()
                && mayRunBeforeItIsWhole(task.user(), KernelFeatures.here().release());
    }

    /**
     * Returns true if a user's copy may run before it is whole. Root's jobs could kill the programs that fill it.
     * Kernels before Linux 6.18 report moves of memory in another way: with another length, and in another order.
     * Before Linux 5.15 they also forget that a second change is under way.
     */
    static boolean mayRunBeforeItIsWhole(JobUser user, String kernel) {
        return user.uid() != 0 && compare(kernel, 6, 18) >= 0;
    }

    /**
     * The files that a restore writes.
     *
     * @param log CRIU's log
     * @param pid the PID of the root
     * @param streamed the PIDs of the processes whose pages were streamed, or empty if there are none
     * @param fillers the PIDs of the programs that fill a running copy, or empty if none do
     */
    private record RestoreFiles(Path log, Path pid, Optional<Path> streamed, Optional<Path> fillers) {}

    private static final class Steps extends RestartSteps {
        private final RestoreFiles files;
        private final boolean asUser;
        private long nextLookNs = System.nanoTime();

        Steps(
                RestartTask task,
                ToolKit kit,
                Optional<RankNamespace.Planned> namespace,
                RestoreFiles files,
                boolean asUser) {
            super(task, kit, namespace);
            this.files = files;
            this.asUser = asUser;
        }

        @Override
        boolean reportsSuccess(ToolProcess tool) throws CheckpointException {
            Optional<Integer> exitCode = tool.exitCode();
            if (exitCode.isPresent() && exitCode.get() != 0) {
                throw failure(tool, files.log(), Map.of(), CriuWords::explain);
            }
            if (exitCode.isEmpty() && System.nanoTime() - nextLookNs >= 0) {
                nextLookNs = System.nanoTime() + SCAN_INTERVAL_NS;
                if (asUser && logContains(GIVEN_UP)) {
                    throw failure(tool, files.log(), Map.of(), CriuWords::explain);
                }
                requireNoWaitForALock();
            }
            if (exitCode.isPresent() && logContains(UNREAD_PAGES)) {
                throw new CheckpointException("rank " + task.rank()
                        + " was restarted with pages that CRIU could not read,"
                        + " though it reports success; its log is " + files.log() + ". Remedy: the image is not whole");
            }
            return exitCode.isPresent();
        }

        /**
         * Throws if CRIU waits for a lock. CRIU locks a restored process's files without a time limit, and the held
         * original has the locks if both nodes are one machine. No restored process runs yet, so only CRIU can be
         * waiting in the namespace.
         */
        private void requireNoWaitForALock() throws CheckpointException {
            if (namespace.isEmpty()) {
                return;
            }
            ProcessSnapshot now = kit.table().recentSnapshot(SCAN_SHARE);
            for (ProcessIdentity member : namespace.get().members(now)) {
                Optional<String> file = LockWait.file(Path.of("/proc", Integer.toString(member.pid())));
                if (file.isPresent()) {
                    throw new CheckpointException("rank " + task.rank() + ": CRIU waits for a lock of the file "
                            + file.get() + ", which another process on this machine holds: the original, if source and"
                            + " target are one machine. Remedy: have the job release the lock before it is moved,"
                            + " for example in its suspend hook");
                }
            }
        }

        /**
         * Returns whether the end of the log has these words. A log in the user's own folder is opened without links
         * before it is read.
         */
        private boolean logContains(String words) throws CheckpointException {
            if (!asUser) {
                return ToolProcess.contains(files.log(), words);
            }
            try {
                return UserPath.tail(files.log(), LOG_BYTES).orElse("").contains(words);
            } catch (IOException e) {
                throw new CheckpointException(
                        "rank " + task.rank() + ": CRIU's log cannot be read: " + e.getMessage(), e);
            }
        }

        /**
         * Throws if a streamed process is missing. A process that ended in the meantime is missing although all its
         * pages were sent.
         */
        private void requireAllStreamed(HeldRank restored) throws CheckpointException {
            List<String> named = List.of();
            try {
                named = files.streamed().isPresent()
                        ? Files.readAllLines(files.streamed().get())
                        : named;
            } catch (IOException e) {
                throw new CheckpointException(
                        "rank " + task.rank() + ": the list of restored processes cannot be read: " + e, e);
            }
            Set<String> there = new HashSet<>();
            for (ProcessIdentity process : restored.processes()) {
                there.add(Integer.toString(kit.table().pidInside(process)));
            }
            for (String pid : named) {
                if (!there.contains(pid)) {
                    throw new CheckpointException("rank " + task.rank() + ": PID " + pid + " of the image was restored"
                            + " and is gone: it was killed from outside. Remedy: see the kernel's log");
                }
            }
        }

        @Override
        void inspect(HeldRank restored) throws CheckpointException {
            requireAllStreamed(restored);
            if (!asUser) {
                return;
            }
            ProcessPrivileges.threads(restored.processes(), thread -> {
                List<String> sets = thread.setsWith(CAP_CHECKPOINT_RESTORE);
                if (!sets.isEmpty()) {
                    throw new CheckpointException("rank " + task.rank() + ": restored thread " + thread.id()
                            + " has kept CAP_CHECKPOINT_RESTORE in " + sets
                            + ", so it is not continued. Remedy: if the job"
                            + " had it at the source, move it by a CRIU that runs as root; otherwise, a process"
                            + " changed the image");
                }
            });
        }

        @Override
        List<ProcessIdentity> restored(ToolProcess tool, ProcessSnapshot now) throws CheckpointException {
            int pid = readPid(files.pid(), task.user(), false)
                    .orElseThrow(() ->
                            new CheckpointException("rank " + task.rank() + ": CRIU wrote no PID to " + files.pid()));
            return rank(root(pid, now), fillers(now), now);
        }

        /** Returns the programs that fill the copy. They are in its namespace, and do not belong to it. */
        private List<ProcessIdentity> fillers(ProcessSnapshot now) throws CheckpointException {
            if (namespace.isEmpty() || files.fillers().isEmpty()) {
                return List.of();
            }
            Set<String> numbers;
            try {
                numbers = Set.copyOf(Files.readAllLines(files.fillers().get()));
            } catch (IOException e) {
                throw new CheckpointException(
                        "rank " + task.rank() + ": the list of the programs that fill it cannot be read: " + e, e);
            }
            List<ProcessIdentity> found = new ArrayList<>();
            for (ProcessIdentity member : namespace.get().members(now)) {
                // They end as soon as the copy is whole.
                Optional<Integer> pid = kit.table().findPidInside(member);
                if (pid.isEmpty() || numbers.contains(Integer.toString(pid.get()))) {
                    found.add(member);
                }
            }
            return found;
        }

        @Override
        List<ProcessIdentity> helperProcesses(ToolProcess tool, ProcessSnapshot now) {
            return List.of();
        }
    }
}
