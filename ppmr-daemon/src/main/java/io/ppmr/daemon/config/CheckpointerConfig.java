package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.LandlockPolicy;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * The sections {@code [checkpointers.NAME]}, which both roles have: their keys, and what a file says in them. Owned by
 * the thread that reads the file until it is read.
 *
 * @param settings of each checkpointer, by name; those with mistakes are left out
 * @param trustedUsers whom a target trusts with each, by number
 * @param forAnnouncedJobs the names of those that an announced job may name at a source
 */
public record CheckpointerConfig(
        Map<String, CheckpointerSettings> settings,
        Map<String, Set<Integer>> trustedUsers,
        Set<String> forAnnouncedJobs) {
    /** The environment's word for CRIU, from the launcher: the words that start it, one a line; empty for none. */
    public static final String CRIU_VARIABLE = "PPMR_CRIU";

    /** The checkpointers, each by a name of its own. */
    public static final ConfigSection SECTION = ConfigSection.many(
            "checkpointers", "A tool that checkpoints and restarts; its NAME is the same on source and target.");

    private static final ConfigSection OF_BLCR = SECTION.part();
    private static final ConfigSection OF_CRIU = SECTION.part();
    private static final ConfigSection OF_COMMAND = SECTION.part();

    private static final ConfigKey<Type> TYPE =
            SECTION.required("type", ValueType.choice(Type.class), "what kind of tool it is");
    private static final ConfigKey<NamespacePolicy> NAMESPACES = SECTION.withDefault(
            "namespaces",
            ValueType.choice(NamespacePolicy.class),
            "auto",
            "whether a rank is restored in a PID namespace of its own; auto: where the tool restores the old PIDs");

    private static final ConfigKey<List<Object>> TRUSTED_USERS = SECTION.withDefault(
            "trusted_users",
            ValueType.NAMES_OR_NUMBERS,
            List.of(),
            "at a target, for a tool that restarts as root (criu; command with as_job_user = false): the users whose"
                    + " jobs it restores here, by name or number; root opens for them whatever paths an image names."
                    + " A job of any other user is refused");
    private static final ConfigKey<Boolean> FOR_ANNOUNCED_JOBS = SECTION.optional(
            "for_announced_jobs",
            ValueType.FLAG,
            "at a source: whether jobs that users announce may name it; without it true for a tool whose commands run"
                    + " as the job's user, false for one that runs as root");

    private static final ConfigKey<Boolean> AS_JOB_USER = SECTION.optional(
            "as_job_user",
            ValueType.FLAG,
            "whether the commands run as the job's user, who then owns the image. command: true unless it is said"
                    + " otherwise. criu: false; with true it runs in its unprivileged mode with CAP_CHECKPOINT_RESTORE"
                    + " alone, needs no trusted_users, and moves fewer kinds of jobs (docs/criu.md); the same on source"
                    + " and target. blcr: always so, not to be said");

    private static final ConfigKey<String> CHECKPOINT_PROGRAM = OF_BLCR.withDefault(
            "checkpoint_program", ValueType.TEXT, "cr_checkpoint", "blcr: its checkpoint command, name or path");
    private static final ConfigKey<String> RESTART_PROGRAM = OF_BLCR.withDefault(
            "restart_program", ValueType.TEXT, "cr_restart", "blcr: its restart command, name or path");
    private static final ConfigKey<Boolean> KERNEL_MODULE = OF_BLCR.withDefault(
            "kernel_module",
            ValueType.FLAG,
            true,
            "blcr: whether its kernel module (/proc/checkpoint/ctrl) must be there");

    private static final ConfigKey<List<String>> PROGRAM = OF_CRIU.withDefault(
            "program", ValueType.WORDS, List.of("criu"), "criu: the words that start it, CRIU 4 or later");
    private static final ConfigKey<List<String>> DUMP_ARGUMENTS =
            OF_CRIU.withDefault("dump_arguments", ValueType.WORDS, List.of(), "criu: further arguments of criu dump");
    private static final ConfigKey<List<String>> RESTORE_ARGUMENTS = OF_CRIU.withDefault(
            "restore_arguments", ValueType.WORDS, List.of(), "criu: further arguments of criu restore");

    private static final ConfigKey<List<String>> EXTERNAL_SOCKETS = OF_CRIU.withDefault(
            "external_sockets",
            ValueType.WORDS,
            List.of(),
            "criu, at a source: paths of Unix sockets of this node's servers to which a rank may be connected when it"
                    + " is moved, such as [\"/dev/log\"]. A datagram connection is made to the same path at the target."
                    + " A stream, as to nscd or sssd, is shut down while the rank is stopped: the original and the copy"
                    + " see a connection that the server has closed, and must connect again by themselves");

    private static final ConfigKey<LandlockPolicy> LANDLOCK = OF_CRIU.withDefault(
            "landlock",
            ValueType.choice(LandlockPolicy.class),
            "refuse",
            "criu, at a source: what becomes of a rank with a process that can gain no new privileges (NoNewPrivs) and"
                    + " filters no system calls, on a kernel with Landlock. Such a process may be in a sandbox, which"
                    + " the kernel does not show and CRIU does not write, so the copy would be out of it. refuse: not"
                    + " moved; warn: moved, with a line in the log; allow: moved. Pods are in no such sandbox");

    private static final ConfigKey<PagePolicy> PAGES = OF_CRIU.withDefault(
            "pages",
            ValueType.choice(PagePolicy.class),
            "auto",
            "criu: how memory travels. streamed: into the held copy while the held original is read, through the pool;"
                    + " images: it waits at the target until it is whole; auto: streamed where both nodes can and the"
                    + " job gains by it (docs/criu.md)");

    private static final ConfigKey<List<String>> CHECKPOINT = OF_COMMAND.optional(
            "checkpoint",
            ValueType.WORDS,
            "command: the checkpoint command, words without a shell; {pid} {rank} {file} {dir} {work} are filled in");
    private static final ConfigKey<List<String>> RESTART = OF_COMMAND.optional(
            "restart",
            ValueType.WORDS,
            "command: the restart command; {rank} {file} {dir} {work} {pidfile} are filled in");
    private static final ConfigKey<ReadingMode> READING = OF_COMMAND.withDefault(
            "reading",
            ValueType.choice(ReadingMode.class),
            "streamed",
            "command: how the restart reads, front to back or in any order");
    private static final ConfigKey<String> FILE = OF_COMMAND.withDefault(
            "file", ValueType.TEXT, "image.{rank}", "command: the image file's name, for {file}");
    private static final ConfigKey<List<String>> ANNOUNCED = OF_COMMAND.withDefault(
            "announced",
            ValueType.WORDS,
            List.of("image.{rank}"),
            "command: names that the restart opens before they may exist");
    private static final ConfigKey<List<String>> COMPLETION = OF_COMMAND.withDefault(
            "completion", ValueType.WORDS, List.of(), "command: those of them whose open waits for the whole image");
    private static final ConfigKey<List<String>> TEMPORARY_SUFFIXES = OF_COMMAND.withDefault(
            "temporary_suffixes",
            ValueType.WORDS,
            List.of(),
            "command: how temporary names end and what the final ones end in, such as \".dmtcp.temp=.dmtcp\"");
    private static final ConfigKey<Boolean> IMAGE_AS_JOB_USER = OF_COMMAND.withDefault(
            "image_as_job_user",
            ValueType.FLAG,
            false,
            "command: with as_job_user = false, whether the job's user writes the image all the same (runuser, DMTCP);"
                    + " then the restart runs as that user. Otherwise root owns the image and restarts it");
    private static final ConfigKey<Boolean> CHECKPOINTS_HELD = OF_COMMAND.withDefault(
            "checkpoints_held",
            ValueType.FLAG,
            false,
            "command: whether the checkpoint command can write processes that are stopped already");
    private static final ConfigKey<Boolean> WRITES_FROM_WITHIN = OF_COMMAND.withDefault(
            "writes_from_within",
            ValueType.FLAG,
            true,
            "command: whether the processes write their images themselves, as with DMTCP; then what they write after a"
                    + " failure is taken and thrown away, since an error could end them. false for a tool that runs"
                    + " beside the process: it gets EIO");

    private static final String ANOTHER_TYPE = "means nothing for this type: take it out";

    /** The kind of a checkpointer. */
    enum Type {
        BLCR,
        CRIU,
        COMMAND
    }

    static CheckpointerConfig read(ConfigFile file) {
        CheckpointerConfig all = new CheckpointerConfig(new LinkedHashMap<>(), new LinkedHashMap<>(), new TreeSet<>());
        file.sections(SECTION).forEach((name, section) -> {
            CheckpointerSettings settings = settings(section);
            Set<Integer> trusted = trustedUsers(file, section);
            Boolean announced = section.get(FOR_ANNOUNCED_JOBS);
            if (settings != null) {
                all.settings.put(name, settings);
                all.trustedUsers.put(name, trusted);
                if (announced == null ? !settings.runAs().checkpointsAsRoot() : announced) {
                    all.forAnnouncedJobs.add(name);
                }
            }
        });
        return all;
    }

    /** The checkpointers of a file, whatever role it is for and whatever else is wrong in it. */
    public static Map<String, Checkpointer> load(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        CheckpointerConfig read = read(opened);
        opened.requireGood();
        return read.create();
    }

    /** BLCR as it is installed, and CRIU as the launcher found it. */
    public static Map<String, Checkpointer> usual(Map<String, String> environment) {
        Map<String, CheckpointerSettings> settings = new LinkedHashMap<>();
        settings.put("blcr", CheckpointerSettings.Blcr.installed());
        settings.put("criu", CheckpointerSettings.Criu.of(criu(environment)));
        return new CheckpointerConfig(settings, Map.of(), Set.of()).create();
    }

    /** The words that start CRIU. */
    public static List<String> criu(Map<String, String> environment) {
        List<String> words = environment
                .getOrDefault(CRIU_VARIABLE, "")
                .lines()
                .filter(word -> !word.isBlank())
                .toList();
        return words.isEmpty() ? List.of("criu") : words;
    }

    /** Returns the commands that root runs, by what names them in the file. */
    Map<String, List<String>> rootsCommands() {
        Map<String, List<String>> commands = new LinkedHashMap<>();
        settings.forEach((name, one) -> {
            for (List<String> words : one.rootsCommands()) {
                commands.put("checkpointers." + name + ": " + words.get(0), words);
            }
        });
        return commands;
    }

    /** The checkpointers, by name. */
    Map<String, Checkpointer> create() {
        NativePrograms programs = NativePrograms.fromSystemProperty();
        Map<String, Checkpointer> all = new LinkedHashMap<>();
        settings.forEach((name, one) -> all.put(name, one.create(name, programs)));
        return all;
    }

    /** Users whom this node does not know are a mistake: a name that is misspelt trusts nobody. */
    private static Set<Integer> trustedUsers(ConfigFile file, ConfigFile.Section section) {
        Set<Integer> uids = new TreeSet<>();
        List<Object> users = section.get(TRUSTED_USERS);
        for (Object user : file.here() ? users : List.of()) {
            try {
                uids.add(JobUsers.user(user));
            } catch (BadValueException e) {
                section.bad(TRUSTED_USERS, e.getMessage());
            }
        }
        return uids;
    }

    private static CheckpointerSettings settings(ConfigFile.Section section) {
        Type type = section.get(TYPE);
        NamespacePolicy namespaces = section.get(NAMESPACES);
        if (type == null) {
            return null;
        }
        refuseUnless(type == Type.BLCR, section, OF_BLCR);
        refuseUnless(type == Type.CRIU, section, OF_CRIU);
        refuseUnless(type == Type.COMMAND, section, OF_COMMAND);
        if (type == Type.BLCR && section.has(AS_JOB_USER)) {
            section.bad(AS_JOB_USER, ANOTHER_TYPE);
        }
        return switch (type) {
            case BLCR ->
                new CheckpointerSettings.Blcr(
                        section.get(CHECKPOINT_PROGRAM),
                        section.get(RESTART_PROGRAM),
                        section.get(KERNEL_MODULE),
                        namespaces);
            case CRIU -> criu(section, namespaces);
            case COMMAND -> command(section, namespaces);
        };
    }

    private static void refuseUnless(boolean fits, ConfigFile.Section section, ConfigSection keys) {
        if (!fits) {
            keys.keys().stream().filter(section::has).forEach(key -> section.bad(key, ANOTHER_TYPE));
        }
    }

    private static CheckpointerSettings criu(ConfigFile.Section section, NamespacePolicy namespaces) {
        List<String> program = section.get(PROGRAM);
        List<String> dump = section.get(DUMP_ARGUMENTS);
        List<String> restore = section.get(RESTORE_ARGUMENTS);
        if (program.isEmpty()) {
            section.bad(PROGRAM, "is empty: name the program, such as [\"criu\"]");
            return null;
        }
        boolean asJobUser = Boolean.TRUE.equals(section.get(AS_JOB_USER));
        if (asJobUser && namespaces == NamespacePolicy.NEVER) {
            section.bad(
                    NAMESPACES,
                    "is never, and as_job_user is true: CRIU as the job's user restores ranks in namespaces of their"
                            + " own; leave it at auto");
            return null;
        }
        PagePolicy pages = section.get(PAGES);
        if (asJobUser && pages == PagePolicy.STREAMED) {
            section.bad(
                    PAGES,
                    "is streamed, and as_job_user is true: pages are streamed by a CRIU that runs as root alone; leave"
                            + " it at auto");
            return null;
        }
        List<String> external = section.get(EXTERNAL_SOCKETS);
        LandlockPolicy landlock = section.get(LANDLOCK);
        for (String path : external) {
            if (!path.startsWith("/")) {
                section.bad(EXTERNAL_SOCKETS, "'" + path + "' is no absolute path: write it as /run/nscd/socket");
                return null;
            }
        }
        return new CheckpointerSettings.Criu(program, dump, restore, pages, asJobUser, namespaces, external, landlock);
    }

    private static CheckpointerSettings command(ConfigFile.Section section, NamespacePolicy namespaces) {
        List<String> checkpoint = commandWords(section, CHECKPOINT);
        List<String> restart = commandWords(section, RESTART);
        ReadingMode reading = section.get(READING);
        String file = section.get(FILE);
        List<String> announced = section.get(ANNOUNCED);
        List<String> completion = section.get(COMPLETION);
        Map<String, String> suffixes = suffixes(section);
        boolean asJobUser = !Boolean.FALSE.equals(section.get(AS_JOB_USER));
        boolean imageAsJobUser = section.get(IMAGE_AS_JOB_USER);
        boolean checkpointsHeld = section.get(CHECKPOINTS_HELD);
        boolean writesFromWithin = section.get(WRITES_FROM_WITHIN);
        RunAs runAs = asJobUser ? RunAs.JOB_USER : imageAsJobUser ? RunAs.ROOT_THEN_JOB_USER : RunAs.ROOT;
        if (!section.isGood()) {
            return null;
        }
        try {
            return new CheckpointerSettings.CommandTool(
                    checkpoint,
                    restart,
                    reading,
                    file,
                    announced,
                    completion,
                    suffixes,
                    runAs,
                    checkpointsHeld,
                    writesFromWithin,
                    namespaces);
        } catch (IllegalArgumentException e) {
            section.bad(TYPE, e.getMessage());
            return null;
        }
    }

    private static List<String> commandWords(ConfigFile.Section section, ConfigKey<List<String>> key) {
        if (!section.has(key)) {
            section.bad(
                    key,
                    "is missing; a checkpointer of type command needs it, "
                            + key.type().form());
        }
        return section.get(key);
    }

    private static Map<String, String> suffixes(ConfigFile.Section section) {
        Map<String, String> suffixes = new HashMap<>();
        for (String rule : section.get(TEMPORARY_SUFFIXES)) {
            int equals = rule.indexOf('=');
            if (equals > 0) {
                suffixes.put(rule.substring(0, equals), rule.substring(equals + 1));
            } else {
                section.bad(
                        TEMPORARY_SUFFIXES,
                        "'" + rule + "' will not do; it must be TEMPORARY=FINAL, such as \".dmtcp.temp=.dmtcp\"");
            }
        }
        return suffixes;
    }
}
