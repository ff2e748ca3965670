package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.checkpoint.limits.CriuLooks;
import io.ppmr.checkpoint.limits.CriuLooks.SandboxRule;
import io.ppmr.os.Command;
import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.LibC;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
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
 * Checkpoint/Restore In Userspace, by criu(8). About a dozen image files a rank, read in any order; inventory.img is
 * written last and opened first.
 *
 * <p>In its <i>streamed</i> form (CRIU's lazy pages) the images hold everything but the memory that is a process's own.
 * That follows as a stream and goes into the copy while the original, stopped by SIGSTOP before, is still read. Neither
 * runs meanwhile: {@code ppmr-pages} passes the pages on at both ends, and succeeds when each page that the images name
 * was handed out. {@code docs/internals/criu.md} has the order of it.
 *
 * <p>A restored process has its old PIDs, so each rank is restored in a PID namespace of its own, whose init outlives
 * this service. A process that lives in such a namespace is dumped from inside it: CRIU does not dump a PID namespace
 * without its init. The image directory is entered by {@code ppmr-launch --directory}, which opens it before the
 * namespaces are changed, so the node's mount need not be visible in there.
 *
 * <p>As the job's user it runs in CRIU's unprivileged mode with CAP_CHECKPOINT_RESTORE as its only capability: it opens
 * what that user can open, and no other process can trace it, since it has a capability that they have not. CRIU gives
 * each thread the capabilities that the image names, and the image is the user's: none may be left with that one. As
 * the rank's PID namespace holds all that was restored, all of it is looked at.
 */
record CriuCheckpointer(String name, CheckpointerSettings.Criu settings, ToolKit kit, boolean streamed)
        implements Checkpointer {
    private static final Logger LOG = LoggerFactory.getLogger(CriuCheckpointer.class);
    private static final int CAP_SYS_ADMIN = 21;
    private static final int CAP_SYS_RESOURCE = 24;
    private static final int CAP_CHECKPOINT_RESTORE = 40;
    private static final int ALL_CAPABILITIES = 64;
    /** Blanks and colons part the libraries in LD_PRELOAD, ld.so(8). */
    private static final String PRELOADABLE = "[^\\s:]+";

    private static final Path YAMA = Path.of("/proc/sys/kernel/yama/ptrace_scope");
    /** The user for a trial of {@code criu check}: it owns nothing. */
    private static final JobUser NOBODY = new JobUser(65_534, 65_534);

    /** The streamed form's files, which ppmr-pages names so. */
    private static final String PAGES_LIST = "pages.list";

    private static final String PAGES_STREAM = "pages.stream";

    /** These leave locks of the network or remapped links in the kernel when a checkpoint with lazy pages fails. */
    private static final Set<String> LEAVING_TRACES = Set.of("--tcp-established", "--link-remap", "--external");

    private static final Path LIMITS = Path.of("/proc/self/limits");
    private static final int HARD_LIMIT_FIELD = 4;
    /** Maximum number of other descriptors that CRIU has open. */
    private static final long OTHER_DESCRIPTORS = 1024;

    private static final long MIB = 1 << 20;
    private static final Path PIPE_LIMIT = Path.of("/proc/sys/fs/pipe-max-size");
    /** CRIU's page server holds the pages in pipes of this size. */
    private static final long PIPE_BYTES = 4 << 20;

    private static final Duration CHECK_LIMIT = Duration.ofSeconds(20);

    /** The message that CRIU 4.1 logs, and then ignores, when shared memory's pages end before their time. */
    private static final String UNREAD_PAGES = "Can't read mapping page";

    /** CRIU 4.1 logs this when a restored thread gives up at its last step; it then waits for that thread for ever. */
    private static final String GIVEN_UP = "BUG at ";

    /** By this value of CRIU_FAULT CRIU stops processes at system calls instead of hardware breakpoints. */
    private static final String WITHOUT_BREAKPOINTS = "130";

    private static final int LOG_BYTES = 1 << 16;
    private static final long LOOK_NS = 200_000_000;
    /** Scanning all processes for this takes at most this fraction (1/n) of one core. */
    private static final int LOOKING_SHARE = 20;

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
                    "CRIU cannot move ranks here, whose PIDs it restores in PID namespaces: "
                            + own.lacks(Feature.NSPID),
                    "use blcr or a command on this node");
        }
        String program = settings.program().get(0);
        if (ToolKit.find(program).isEmpty()) {
            return Availability.lacking(
                    program + " is not installed",
                    "run install-criu.sh and put the words it prints into the configuration");
        }
        Optional<String> version = kit.versions().of(settings.program());
        if (version.isEmpty()) {
            return Availability.lacking(
                    String.join(" ", settings.program()) + " does not start", "start it by hand to see why");
        }
        String kernel = System.getProperty("os.version");
        if (compare(version.get(), 4, 0) < 0 && compare(kernel, 6, 13) >= 0) {
            return Availability.lacking(
                    "CRIU " + version.get() + " does not restore on kernel " + kernel,
                    "use CRIU 4 or later: run install-criu.sh and put the words it prints into the configuration");
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

    /** Says so where CRIU cannot use hardware breakpoints; it would wait for ever for a process that none stops. */
    private String breakpoints() {
        try {
            List<String> asked = started(kit.launch(Optional.empty()));
            asked.addAll(List.of("printenv", "CRIU_FAULT"));
            return kit.starter().run(asked, CHECK_LIMIT).exitCode() == 0
                    ? "; hardware breakpoints stop no process on this machine, so CRIU goes without (CRIU_FAULT="
                            + WITHOUT_BREAKPOINTS + ")"
                    : "";
        } catch (CheckpointException e) {
            return "; whether hardware breakpoints work is not known: " + e.getMessage();
        }
    }

    /** Gives the words before CRIU, by which it is told to do without breakpoints where they do not work. */
    private static List<String> started(List<String> launch) {
        List<String> words = new ArrayList<>(launch);
        words.addAll(1, List.of("--breakpoints", WITHOUT_BREAKPOINTS));
        return words;
    }

    /** Yama keeps an ordinary user from tracing any but descendants; that user's CRIU is no ancestor of the job. */
    private static String traceLimit() {
        try {
            return Files.exists(YAMA) && !Files.readAllLines(YAMA).equals(List.of("0"))
                    ? "; kernel.yama.ptrace_scope is not 0 here, so it can restore and cannot checkpoint"
                    : "";
        } catch (IOException e) {
            return "; " + YAMA + " cannot be read (" + e.getMessage() + ")";
        }
    }

    /** Returns the objections of {@code criu check} to this kernel and these namespaces; takes about 50 ms. */
    private Optional<String> selfCheck() {
        try {
            List<String> command = launched(settings.asJobUser() ? Optional.of(NOBODY) : Optional.empty());
            command.addAll(settings.program());
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

    /** Compares the first two numbers in a version with the given ones; a text without numbers counts as newer. */
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
        return streamed && name.equals(PAGES_STREAM);
    }

    @Override
    public List<String> announcedNames(int rank) {
        return List.of(streamed ? PAGES_LIST : "inventory.img");
    }

    @Override
    public List<String> completionNames(int rank) {
        return streamed ? List.of() : List.of("inventory.img");
    }

    @Override
    public Optional<String> completionMarkerName() {
        return streamed ? Optional.of(PAGES_LIST) : Optional.empty();
    }

    @Override
    public StreamedForm streamedForm() {
        boolean required = settings.pages() == PagePolicy.STREAMED;
        return whyNotStreamed()
                .map(why -> StreamedForm.none(required, why))
                .orElseGet(() -> new StreamedForm(
                        Optional.of(new CriuCheckpointer(name, settings, kit, true)), required, "", mostBytes()));
    }

    /** CRIU takes every page of a process for its stack's if a stack pointer of it is at a page's first byte. */
    @Override
    public Optional<String> whyNotStreamed(ProcessIdentity process) {
        return CriuLimits.stackAtPageBoundary(process)
                .map(thread -> thread + " has its stack pointer at the first byte of a page now, and for such a process"
                        + " CRIU (to 4.2) writes all memory into the images");
    }

    private Optional<String> whyNotStreamed() {
        if (settings.pages() == PagePolicy.IMAGES) {
            return Optional.of("the configuration says pages = \"images\"");
        }
        if (settings.asJobUser()) {
            return Optional.of("CRIU runs as the job's user here (as_job_user), and streams pages only as root");
        }
        if (settings.namespaces() == NamespacePolicy.NEVER) {
            return Optional.of(
                    "ranks have no namespace of their own here (namespaces = \"never\"), by which a half restored"
                            + " copy is ended when the service dies");
        }
        String machine = System.getProperty("os.arch");
        if (!machine.equals("amd64")) {
            return Optional.of("pages are streamed on x86-64 alone, and this is " + machine);
        }
        for (String argument : settings.extraDumpArguments()) {
            if (LEAVING_TRACES.contains(argument.split("=", 2)[0])) {
                return Optional.of("with " + argument + " in dump_arguments a checkpoint that fails while pages are"
                        + " streamed leaves traces in the kernel");
            }
        }
        String version = kit.versions().of(settings.program()).orElse("");
        if (version.isEmpty()) {
            return Optional.of(
                    String.join(" ", settings.program()) + " does not say its version, so CRIU cannot be run here");
        }
        if (!VERSION.matcher(version).find() || compare(version, 4, 0) < 0 || compare(version, 4, 2) > 0) {
            return Optional.of("this CRIU (" + version + ") is not known to hand over its pages as 4.0 to 4.2 do");
        }
        if (kit.versions()
                .says(settings.program(), List.of("check", "--feature", "uffd-noncoop"))
                .isEmpty()) {
            return Optional.of("this kernel has no userfaultfd with events (criu check --feature uffd-noncoop)");
        }
        return whyPipesAreTooSmall();
    }

    /**
     * CRIU holds the pages that it serves in pipes, two descriptors each. It raises its own limit of descriptors, and
     * the size of a pipe, where it may; else a pipe holds a MiB.
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
            // By lines: such a file gives a second read nothing.
            long limit = Long.parseLong(Files.readAllLines(PIPE_LIMIT).get(0).strip());
            return limit >= PIPE_BYTES
                    ? Optional.empty()
                    : Optional.of("pipes may have " + limit + " bytes here, and without CAP_SYS_RESOURCE CRIU's page"
                            + " server needs " + PIPE_BYTES + ": give the service that capability, or set"
                            + " fs.pipe-max-size = " + PIPE_BYTES);
        } catch (IOException | NumberFormatException e) {
            return Optional.of(PIPE_LIMIT + " cannot be read (" + e.getMessage() + ")");
        }
    }

    @Override
    public Optional<String> whyNotFrom(String detail) {
        return whyNotFrom(detail, kit.versions().of(settings.program()).orElse(""));
    }

    /** Such images are restored by an older CRIU without the memory that they have, and without an error. */
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

    /** No: criu runs beside the process and writes every file itself; a write that fails ends the dump, never that. */
    @Override
    public boolean writesFromWithin() {
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
        CriuLimits.of(CriuLimits.Arguments.of(version(), settings.extraDumpArguments()))
                .require(roots, user);
        sharing(false, sandboxRule()).require(roots, true);
    }

    @Override
    public void requireNothingShared(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        sharing(false, SandboxRule.PASS).requireHeld(roots);
    }

    private SharingCheck sharing(boolean pods, SandboxRule sandboxes) {
        CriuLooks looks = new CriuLooks(settings.extraDumpArguments(), pods, sandboxes);
        return new SharingCheck(kit.table(), settings.externalSockets(), looks);
    }

    private SandboxRule sandboxRule() {
        if (!LibC.hasLandlock()) {
            return SandboxRule.PASS;
        }
        return switch (settings.landlock()) {
            case REFUSE -> SandboxRule.REFUSE;
            case WARN -> SandboxRule.WARN;
            case ALLOW -> SandboxRule.PASS;
        };
    }

    private String version() {
        return kit.versions().of(settings.program()).orElse("");
    }

    @Override
    public void requireMovablePods(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {
        if (settings.asJobUser()) {
            throw new CheckpointException("checkpointer " + name + " runs as the job's user (as_job_user), and CRIU"
                    + " moves a pod only as root: namespaces and connections are root's to make. Remedy: name a"
                    + " checkpointer with as_job_user = false in the pod's template");
        }
        if (!LibC.listsTrackedConnections()) {
            throw new CheckpointException("checkpointer " + name + " cannot checkpoint the network of a pod: CRIU asks"
                    + " the kernel for the connections that it tracks there, and this one has no nf_conntrack_netlink"
                    + " and cannot load it. Remedy: modprobe nf_conntrack_netlink, or a kernel that has it");
        }
        ProcessSnapshot now = kit.table().snapshot();
        for (Map.Entry<Integer, ProcessIdentity> rank : roots.entrySet()) {
            RankPlace.requireServicesUsers(rank.getKey(), now.tree(rank.getValue()), kit.table());
            requireReadableLimits(rank.getKey(), user);
        }
        CriuLimits.of(CriuLimits.Arguments.of(version(), settings.extraDumpArguments())
                        .withConnections())
                .require(roots, user);
        sharing(true, SandboxRule.PASS).require(roots, false);
    }

    /** Without CAP_SYS_RESOURCE prlimit(2) tells nothing of another user's processes, and a library of ours does. */
    private void requireReadableLimits(int rank, JobUser user) throws CheckpointException {
        Path library = kit.programs().criuLimits();
        if (user.uid() != 0
                && !kit.starter().givesCapability(CAP_SYS_RESOURCE)
                && (!Files.isReadable(library) || !library.toString().matches(PRELOADABLE))) {
            throw new CheckpointException("rank " + rank + ": CRIU cannot read the resource limits of user "
                    + user.uid() + "'s processes (prlimit(2)), since this service has no CAP_SYS_RESOURCE, and "
                    + library + ", by which it could do without, is missing or has a blank or a colon in its path."
                    + " Remedy: give the service that capability, or install ppmr in another directory");
        }
    }

    /** Gives all words by which programs are named that run in a rank's namespaces. */
    private List<String> programs() {
        List<String> words = new ArrayList<>(settings.program());
        words.addAll(List.of(
                kit.programs().pages().toString(), kit.programs().criuLimits().toString(), "env"));
        return words;
    }

    /** Gives the words that start CRIU where it is to checkpoint. */
    private List<String> dumpProgram() {
        List<String> words = new ArrayList<>();
        if (!kit.starter().givesCapability(CAP_SYS_RESOURCE)) {
            words.addAll(List.of("env", "LD_PRELOAD=" + kit.programs().criuLimits()));
        }
        words.addAll(settings.program());
        return words;
    }

    /** The user that it runs as; empty for root. Jobs of root are always moved as root. */
    private Optional<JobUser> runsAs(JobUser user) {
        return settings.asJobUser() && user.uid() != 0 ? Optional.of(user) : Optional.empty();
    }

    private List<String> launched(Optional<JobUser> user) throws CheckpointException {
        return started(user.isPresent() ? kit.launch(user.get(), CAP_CHECKPOINT_RESTORE) : kit.launch(user));
    }

    /** CRIU's own mode for it, and no configuration file out of a home, which would be the user's. */
    private static List<String> mode(boolean asUser) {
        return asUser ? List.of("--unprivileged", "--no-default-config") : List.of();
    }

    /**
     * CRIU takes out of a copy's bounding set what its original's had not, also what is not in there anyway, and needs
     * CAP_SETPCAP for that. Without it the restored threads give up one after the other.
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
                        + " and CRIU as the job's user cannot make a copy that lacks it: that needs CAP_SETPCAP."
                        + " Remedy: start the job where nothing has taken capabilities out of that set, or move it by a"
                        + " CRIU that runs as root (as_job_user = false, trusted_users at the target)");
            }
        }
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        String name = "criu-dump-" + task.rank();
        Optional<JobUser> user = runsAs(task.user());
        Path log = kit.freshFile(task.workDirectory(), user, name + ".log");
        CheckpointSteps steps = new CheckpointSteps(task, kit, log, Map.of(), CriuWords::explain);
        if (user.isPresent()) {
            requireFullBounds(task);
        } else {
            requireReadableLimits(task.rank(), task.user());
        }
        if (!streamed
                && task.pod().isEmpty()
                && settings.externalSockets().isEmpty()
                && task.whenStopped().isEmpty()) {
            return steps.start(name, dump(task, log, user, List.of()), user);
        }
        List<ProcessIdentity> stopped = steps.stop();
        try {
            if (task.whenStopped().isPresent()) {
                task.whenStopped().get().accept(stopped);
            }
            if (streamed) {
                for (ProcessIdentity process : stopped) {
                    whyNotStreamed(process)
                            .ifPresent(why -> LOG.warn(
                                    "rank {}: {}, for which the target's staging must have room", task.rank(), why));
                }
            }
            List<String> command = dump(task, log, user, stopped);
            command.addAll(new ExternalSockets(settings.externalSockets()).release(task.rank(), stopped));
            return steps.start(name, command, user);
        } catch (CheckpointException | RuntimeException e) {
            steps.undo();
            throw e;
        }
    }

    /** @param stopped in the streamed form the rank's processes, which are stopped */
    private List<String> dump(CheckpointTask task, Path log, Optional<JobUser> user, List<ProcessIdentity> stopped)
            throws CheckpointException {
        // A pod's namespaces are dumped with it, from outside.
        boolean inside = task.pod().isEmpty() && kit.livesElsewhere(task);
        List<String> command = task.pod().isEmpty() ? kit.launchFor(task, launched(user), programs()) : launched(user);
        String images = inside ? "." : task.imageDirectory().toString();
        if (streamed) {
            command.addAll(Command.words(
                    "%s source --images %s --scratch %s --root %s",
                    kit.programs().pages(),
                    images,
                    log.getParent(),
                    inside ? kit.pidFor(task) : task.root().pid()));
            for (ProcessIdentity process : stopped) {
                command.addAll(List.of("--pid", Integer.toString(inside ? kit.pidFor(task, process) : process.pid())));
            }
            command.add("--");
        }
        command.addAll(dumpProgram());
        command.addAll(Command.words(
                "dump --tree %s --images-dir %s --work-dir %s --log-file %s --leave-stopped --manage-cgroups=ignore",
                inside ? kit.pidFor(task) : task.root().pid(), images, log.getParent(), log));
        if (!kit.table().leadsSession(task.root())) {
            command.add("--shell-job");
        }
        command.addAll(mode(user.isPresent()));
        command.addAll(settings.extraDumpArguments());
        task.pod().ifPresent(pod -> command.addAll(pod.arguments()));
        if (streamed) {
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
        // A pod is the whole of a PID namespace, which CRIU makes with it.
        boolean without =
                settings.namespaces() == NamespacePolicy.NEVER || task.pod().isPresent();
        Optional<RankNamespace.Planned> namespace =
                without ? Optional.empty() : Optional.of(RankNamespace.Planned.of(kit, task, name));
        List<String> command = kit.launchInNew(namespace, task.imageDirectory(), launched(user), programs());
        task.pod().ifPresent(pod -> command.addAll(pod.before()));
        String images = namespace.isPresent() ? "." : task.imageDirectory().toString();
        Path work = log.getParent();
        Optional<Path> pids = Optional.empty();
        if (streamed) {
            pids = Optional.of(kit.freshFile(task.workDirectory(), user, name + ".pids"));
            command.addAll(Command.words(
                    "%s target --images %s --work %s --pids-file %s --",
                    kit.programs().pages(), images, work, pids.get()));
        }
        command.addAll(settings.program());
        command.addAll(Command.words(
                "restore --images-dir %s --work-dir %s --log-file %s --pidfile %s --restore-detached --leave-stopped"
                        + " --shell-job --manage-cgroups=ignore",
                images, work, log, pidFile));
        command.addAll(mode(user.isPresent()));
        command.addAll(settings.extraRestoreArguments());
        task.pod().ifPresent(pod -> command.addAll(pod.arguments()));
        if (streamed) {
            command.add("--lazy-pages");
        }
        return new Steps(task, kit, namespace, log, pidFile, pids, user.isPresent()).start(name, command, user);
    }

    private static final class Steps extends RestartSteps {
        private final Path log;
        private final Path pidFile;
        /** Of the processes whose pages were streamed; empty where none were. */
        private final Optional<Path> streamedPids;

        private final boolean asUser;
        private long nextLookNs = System.nanoTime();

        Steps(
                RestartTask task,
                ToolKit kit,
                Optional<RankNamespace.Planned> namespace,
                Path log,
                Path pidFile,
                Optional<Path> streamedPids,
                boolean asUser) {
            super(task, kit, namespace);
            this.log = log;
            this.pidFile = pidFile;
            this.streamedPids = streamedPids;
            this.asUser = asUser;
        }

        @Override
        boolean reportsSuccess(ToolProcess tool) throws CheckpointException {
            Optional<Integer> exitCode = tool.exitCode();
            if (exitCode.isPresent() && exitCode.get() != 0) {
                throw failure(tool, log, Map.of(), CriuWords::explain);
            }
            if (exitCode.isEmpty() && System.nanoTime() - nextLookNs >= 0) {
                nextLookNs = System.nanoTime() + LOOK_NS;
                if (asUser && says(GIVEN_UP)) {
                    throw failure(tool, log, Map.of(), CriuWords::explain);
                }
                requireNoWaitForALock();
            }
            if (exitCode.isPresent() && says(UNREAD_PAGES)) {
                throw new CheckpointException("rank " + task.rank()
                        + " was restarted with pages that CRIU could not read,"
                        + " though it reports success; its log is " + log + ". Remedy: the image is not whole");
            }
            return exitCode.isPresent();
        }

        /**
         * CRIU takes a restored process's locks without a limit, and the held original has them where both nodes are
         * one machine. No restored process runs yet, so only CRIU can be waiting for a lock in there.
         */
        private void requireNoWaitForALock() throws CheckpointException {
            if (namespace.isEmpty()) {
                return;
            }
            ProcessSnapshot now = kit.table().recentSnapshot(LOOKING_SHARE);
            for (ProcessIdentity member : namespace.get().members(now)) {
                Optional<String> file = LockWait.file(Path.of("/proc", Integer.toString(member.pid())));
                if (file.isPresent()) {
                    throw new CheckpointException("rank " + task.rank() + ": CRIU waits for a lock of the file "
                            + file.get() + ", which another process on this machine holds: the original, if source and"
                            + " target are one machine. Remedy: have the job give the lock up before it is moved, in"
                            + " its suspend hook if need be");
                }
            }
        }

        /** A log in the user's own folder is held before it is read, and only its end is looked at. */
        private boolean says(String words) throws CheckpointException {
            if (!asUser) {
                return ToolProcess.contains(log, words);
            }
            try {
                return UserPath.tail(log, LOG_BYTES).orElse("").contains(words);
            } catch (IOException e) {
                throw new CheckpointException(
                        "rank " + task.rank() + ": CRIU's log cannot be read: " + e.getMessage(), e);
            }
        }

        /** A process that has ended meanwhile is missing in a copy whose pages all went somewhere. */
        private void requireAllStreamed(HeldRank restored) throws CheckpointException {
            List<String> named = List.of();
            try {
                named = streamedPids.isPresent() ? Files.readAllLines(streamedPids.get()) : named;
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
                            + " has kept CAP_CHECKPOINT_RESTORE in " + sets + ", so it is not continued. Remedy: a job"
                            + " that had it at the source is moved by a CRIU that runs as root; in any other, a process"
                            + " has changed the image");
                }
            });
        }

        @Override
        List<ProcessIdentity> restored(ToolProcess tool, ProcessSnapshot now) throws CheckpointException {
            int pid = readPid(pidFile, task.user(), false)
                    .orElseThrow(() ->
                            new CheckpointException("rank " + task.rank() + ": CRIU has left no PID in " + pidFile));
            return rank(root(pid, now), List.of(), now);
        }

        @Override
        List<ProcessIdentity> helperProcesses(ToolProcess tool, ProcessSnapshot now) {
            return List.of();
        }
    }
}
