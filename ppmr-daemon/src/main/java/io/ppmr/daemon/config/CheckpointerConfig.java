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
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
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

    private static final String ANOTHER_TYPE = "means nothing for this type: take it out";

    /** The kind of a checkpointer. */
    enum Type {
        BLCR,
        CRIU,
        COMMAND
    }

    @Section(
            name = "checkpointers",
            many = true,
            doc = "A tool that checkpoints and restarts; its NAME is the same on source and target.")
    record Keys(
            @Key(doc = "what kind of tool it is", example = "criu")
            Type type,

            @Key(
                    value = "auto",
                    doc = "whether a rank is restored in a PID namespace of its own; auto: where the tool restores the"
                            + " old PIDs",
                    example = "always")
            NamespacePolicy namespaces,

            @Key(
                    value = "[]",
                    doc = "at a target, for a tool that restarts as root (criu; command with as_job_user = false): the"
                            + " users whose jobs it restores here, by name or number; root opens for them whatever"
                            + " paths an image names. A job of any other user is refused",
                    example = "[\"alice\", 1234]")
            List<Object> trustedUsers,

            @Key(
                    doc = "at a source: whether jobs that users announce may name it; without it true for a tool whose"
                            + " commands run as the job's user, false for one that runs as root",
                    example = "true")
            Optional<Boolean> forAnnouncedJobs,

            @Key(
                    doc = "whether the commands run as the job's user, who then owns the image. command: true unless it"
                            + " is said otherwise. criu: false; with true it runs in its unprivileged mode with"
                            + " CAP_CHECKPOINT_RESTORE alone, needs no trusted_users, and moves fewer kinds of jobs"
                            + " (docs/admin/checkpointers.md); the same on source and target."
                            + " blcr: always so, not to be said",
                    example = "true")
            Optional<Boolean> asJobUser,

            BlcrKeys blcr,
            CriuKeys criu,
            CommandKeys command) {}

    /** The keys of BLCR alone. */
    private record BlcrKeys(
            @Key(
                    value = "cr_checkpoint",
                    doc = "blcr: its checkpoint command, name or path",
                    example = "/usr/bin/cr_checkpoint")
            String checkpointProgram,

            @Key(value = "cr_restart", doc = "blcr: its restart command, name or path", example = "/usr/bin/cr_restart")
            String restartProgram,

            @Key(
                    value = "true",
                    doc = "blcr: whether its kernel module (/proc/checkpoint/ctrl) must be there",
                    example = "false")
            boolean kernelModule) {}

    /** The keys of CRIU alone. */
    private record CriuKeys(
            @Key(
                    value = "[\"criu\"]",
                    doc = "criu: the words that start it, CRIU 4 or later",
                    example = "[\"/usr/sbin/criu\"]")
            List<String> program,

            @Key(value = "[]", doc = "criu: further arguments of criu dump", example = "[\"--ghost-limit\", \"64M\"]")
            List<String> dumpArguments,

            @Key(value = "[]", doc = "criu: further arguments of criu restore", example = "[\"--shell-job\"]")
            List<String> restoreArguments,

            @Key(
                    value = "[]",
                    doc = "criu, at a source: paths of Unix sockets of this node's servers to which a rank may be"
                            + " connected when it is moved. A datagram connection is made to the same path at the"
                            + " target. A stream, as to nscd or sssd, is shut down while the rank is stopped: the"
                            + " original and the copy see a connection that the server has closed, and must connect"
                            + " again by themselves",
                    example = "[\"/dev/log\"]")
            List<String> externalSockets,

            @Key(
                    value = "refuse",
                    doc = "criu, at a source: what becomes of a rank with a process that can gain no new privileges"
                            + " (NoNewPrivs) and filters no system calls, on a kernel with Landlock. Such a process may"
                            + " be in a sandbox, which the kernel does not show and CRIU does not write, so the copy"
                            + " would be out of it. refuse: not moved; warn: moved, with a line in the log; allow:"
                            + " moved. Pods are in no such sandbox",
                    example = "warn")
            LandlockPolicy landlock,

            @Key(
                    value = "auto",
                    doc = "criu: how memory travels. streamed: into the held copy while the held original is read,"
                            + " through the pool; images: it waits at the target until it is whole; auto: streamed"
                            + " where both nodes can and the job gains by it (docs/admin/checkpointers.md)",
                    example = "images")
            PagePolicy pages) {}

    /** The keys of tools that are commands. */
    private record CommandKeys(
            @Key(
                    doc = "command: the checkpoint command, words without a shell; {pid} {rank} {file} {dir} {work} are"
                            + " filled in",
                    example = "[\"save\", \"{pid}\", \"{file}\"]")
            Optional<List<String>> checkpoint,

            @Key(
                    doc = "command: the restart command; {rank} {file} {dir} {work} {pidfile} are filled in",
                    example = "[\"load\", \"{file}\"]")
            Optional<List<String>> restart,

            @Key(
                    value = "streamed",
                    doc = "command: how the restart reads, front to back or in any order",
                    example = "retained")
            ReadingMode reading,

            @Key(
                    value = "image.{rank}",
                    doc = "command: the image file's name, for {file}",
                    example = "ckpt.{rank}.dmtcp")
            String file,

            @Key(
                    value = "[\"image.{rank}\"]",
                    doc = "command: names that the restart opens before they may exist",
                    example = "[\"ckpt.{rank}.dmtcp\"]")
            List<String> announced,

            @Key(
                    value = "[]",
                    doc = "command: those of them whose open waits for the whole image",
                    example = "[\"ckpt.{rank}.dmtcp\"]")
            List<String> completion,

            @Key(
                    value = "[]",
                    doc = "command: how temporary names end and what the final ones end in",
                    example = "[\".dmtcp.temp=.dmtcp\"]")
            List<String> temporarySuffixes,

            @Key(
                    value = "false",
                    doc = "command: with as_job_user = false, whether the job's user writes the image all the same"
                            + " (runuser, DMTCP); then the restart runs as that user. Otherwise root owns the image and"
                            + " restarts it",
                    example = "true")
            boolean imageAsJobUser,

            @Key(
                    value = "false",
                    doc = "command: whether the checkpoint command can write processes that are stopped already",
                    example = "true")
            boolean checkpointsHeld,

            @Key(
                    value = "true",
                    doc = "command: whether the processes write their images themselves, as with DMTCP; then what they"
                            + " write after a failure is taken and thrown away, since an error could end them. false"
                            + " for a tool that runs beside the process: it gets EIO",
                    example = "false")
            boolean writesFromWithin) {}

    static CheckpointerConfig read(ConfigFile file) {
        CheckpointerConfig all = new CheckpointerConfig(new LinkedHashMap<>(), new LinkedHashMap<>(), new TreeSet<>());
        file.sections(Keys.class).forEach((name, section) -> {
            CheckpointerSettings settings = settings(section);
            Set<Integer> trusted = trustedUsers(file, section);
            if (settings != null) {
                all.settings.put(name, settings);
                all.trustedUsers.put(name, trusted);
                if (section.values().forAnnouncedJobs().orElse(!settings.runAs().checkpointsAsRoot())) {
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

    /** Returns the names of the checkpointers of a file, whatever is wrong with them. */
    public static Set<String> namesIn(ConfigFile file) {
        return file.names(Keys.class);
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
    private static Set<Integer> trustedUsers(ConfigFile file, ConfigFile.FileSection<Keys> section) {
        Set<Integer> uids = new TreeSet<>();
        for (Object user : file.here() ? section.values().trustedUsers() : List.of()) {
            try {
                uids.add(JobUsers.user(user));
            } catch (BadValueException e) {
                section.bad("trusted_users", e.getMessage());
            }
        }
        return uids;
    }

    private static CheckpointerSettings settings(ConfigFile.FileSection<Keys> section) {
        Keys keys = section.values();
        if (keys.type() == null) {
            return null;
        }
        refuseUnless(keys.type() == Type.BLCR, section, BlcrKeys.class);
        refuseUnless(keys.type() == Type.CRIU, section, CriuKeys.class);
        refuseUnless(keys.type() == Type.COMMAND, section, CommandKeys.class);
        if (keys.type() == Type.BLCR && section.has("as_job_user")) {
            section.bad("as_job_user", ANOTHER_TYPE);
        }
        return switch (keys.type()) {
            case BLCR ->
                new CheckpointerSettings.Blcr(
                        keys.blcr().checkpointProgram(),
                        keys.blcr().restartProgram(),
                        keys.blcr().kernelModule(),
                        keys.namespaces());
            case CRIU -> criu(section);
            case COMMAND -> command(section);
        };
    }

    private static void refuseUnless(boolean fits, ConfigFile.FileSection<Keys> section, Class<? extends Record> keys) {
        if (!fits) {
            for (String key : ConfigSection.of(keys).names()) {
                if (section.has(key)) {
                    section.bad(key, ANOTHER_TYPE);
                }
                section.leaveOut(key);
            }
        }
    }

    private static CheckpointerSettings criu(ConfigFile.FileSection<Keys> section) {
        CriuKeys keys = section.values().criu();
        NamespacePolicy namespaces = section.values().namespaces();
        if (keys.program().isEmpty()) {
            section.bad("program", "is empty: name the program, such as [\"criu\"]");
        }
        boolean asJobUser = section.values().asJobUser().orElse(false);
        if (asJobUser && namespaces == NamespacePolicy.NEVER) {
            section.bad(
                    "namespaces",
                    "is never, and as_job_user is true: CRIU as the job's user restores ranks in namespaces of their"
                            + " own; leave it at auto");
        }
        if (asJobUser && keys.pages() == PagePolicy.STREAMED) {
            section.bad(
                    "pages",
                    "is streamed, and as_job_user is true: pages are streamed by a CRIU that runs as root alone; leave"
                            + " it at auto");
        }
        for (String path : keys.externalSockets()) {
            if (!path.startsWith("/")) {
                section.bad("external_sockets", "'" + path + "' is no absolute path: write it as /run/nscd/socket");
            }
        }
        if (!section.isGood()) {
            return null;
        }
        return new CheckpointerSettings.Criu(
                keys.program(),
                keys.dumpArguments(),
                keys.restoreArguments(),
                keys.pages(),
                asJobUser,
                namespaces,
                keys.externalSockets(),
                keys.landlock());
    }

    private static CheckpointerSettings command(ConfigFile.FileSection<Keys> section) {
        CommandKeys keys = section.values().command();
        List<String> checkpoint = commandWords(section, "checkpoint", keys.checkpoint());
        List<String> restart = commandWords(section, "restart", keys.restart());
        Map<String, String> suffixes = suffixes(section, keys.temporarySuffixes());
        boolean asJobUser = section.values().asJobUser().orElse(true);
        RunAs runAs = asJobUser ? RunAs.JOB_USER : keys.imageAsJobUser() ? RunAs.ROOT_THEN_JOB_USER : RunAs.ROOT;
        if (!section.isGood()) {
            return null;
        }
        try {
            return new CheckpointerSettings.CommandTool(
                    checkpoint,
                    restart,
                    keys.reading(),
                    keys.file(),
                    keys.announced(),
                    keys.completion(),
                    suffixes,
                    runAs,
                    keys.checkpointsHeld(),
                    keys.writesFromWithin(),
                    section.values().namespaces());
        } catch (IllegalArgumentException e) {
            section.bad("type", e.getMessage());
            return null;
        }
    }

    private static List<String> commandWords(
            ConfigFile.FileSection<Keys> section, String key, Optional<List<String>> words) {
        if (!section.has(key)) {
            section.bad(key, "is missing; a checkpointer of type command needs it, " + section.form(key));
        }
        return words.orElse(List.of());
    }

    private static Map<String, String> suffixes(ConfigFile.FileSection<Keys> section, List<String> rules) {
        Map<String, String> suffixes = new HashMap<>();
        for (String rule : rules) {
            int equals = rule.indexOf('=');
            if (equals > 0) {
                suffixes.put(rule.substring(0, equals), rule.substring(equals + 1));
            } else {
                section.bad(
                        "temporary_suffixes",
                        "'" + rule + "' will not do; it must be TEMPORARY=FINAL, such as \".dmtcp.temp=.dmtcp\"");
            }
        }
        return suffixes;
    }
}
