package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.BlcrKeys;
import io.ppmr.checkpoint.CheckpointerSettings.CriuKeys;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/**
 * The sections {@code [checkpointers.NAME]} of both roles: their keys and their values in a file. Owned by the thread
 * that reads the file.
 *
 * @param settings the settings of each checkpointer without mistakes, by name
 * @param trustedUsers the numbers of the users that a target trusts with each checkpointer
 * @param forAnnouncedJobs the names of the checkpointers that an announced job may name at a source
 */
public record CheckpointerConfig(
        Map<String, CheckpointerSettings> settings,
        Map<String, Set<Integer>> trustedUsers,
        Set<String> forAnnouncedJobs) {
    /**
     * The launcher's environment variable for CRIU. It contains the command words, one a line, and is empty for none.
     */
    public static final String CRIU_VARIABLE = "PPMR_CRIU";

    private static final String ANOTHER_TYPE = "means nothing for this type: remove it";

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
            @Key(doc = "the kind of the tool", example = "criu")
            Type type,

            @Key(
                    value = "auto",
                    doc = "whether a rank is restored in a PID namespace of its own. auto: if the tool"
                            + " restores the old PIDs",
                    example = "always")
            NamespacePolicy namespaces,

            @Key(
                    value = "[]",
                    doc = "at a target, for a tool that restarts as root (criu; command with as_job_user = false):"
                            + " the users whose jobs it restores, by name or number. Root opens any path that an"
                            + " image names. Jobs of other users are refused",
                    example = "[\"alice\", 1234]")
            List<Object> trustedUsers,

            @Key(
                    doc = "at a source: whether jobs that users announce may name this tool. Default: true if its"
                            + " commands run as the job's user, false if they run as root",
                    example = "true")
            Optional<Boolean> forAnnouncedJobs,

            @Key(
                    doc = "whether the commands run as the job's user, who then owns the image. command: true by"
                            + " default. criu: false by default. With true, CRIU runs unprivileged with"
                            + " CAP_CHECKPOINT_RESTORE only, needs no trusted_users, and moves fewer kinds of jobs"
                            + " (docs/admin/checkpointers.md). Set the same value on source and target."
                            + " blcr: always true, leave"
                            + " it out",
                    example = "true")
            Optional<Boolean> asJobUser,

            BlcrKeys blcr,
            CriuKeys criu,
            CommandKeys command) {}

    /** The keys of tools that are commands. */
    private record CommandKeys(
            @Key(
                    doc = "command: the checkpoint command, words without a shell. {pid} {rank} {file} {dir} {work}"
                            + " are replaced",
                    example = "[\"save\", \"{pid}\", \"{file}\"]")
            Optional<List<String>> checkpoint,

            @Key(
                    doc = "command: the restart command. {rank} {file} {dir} {work} {pidfile} are replaced",
                    example = "[\"load\", \"{file}\"]")
            Optional<List<String>> restart,

            @Key(
                    value = "streamed",
                    doc = "command: how the restart reads. With streamed it reads front to back, with"
                            + " retained in any order",
                    example = "retained")
            ReadingMode reading,

            @Key(
                    value = "image.{rank}",
                    doc = "command: the name of the image file, for {file}",
                    example = "ckpt.{rank}.dmtcp")
            String file,

            @Key(
                    value = "[\"image.{rank}\"]",
                    doc = "command: the file names that the restart may open before they exist",
                    example = "[\"ckpt.{rank}.dmtcp\"]")
            List<String> expectedNames,

            @Key(
                    value = "[]",
                    doc = "command: the names among expected_names whose open blocks until the whole image arrived",
                    example = "[\"ckpt.{rank}.dmtcp\"]")
            List<String> completion,

            @Key(
                    value = "[]",
                    doc = "command: suffixes of temporary names, each with the suffix of the final name",
                    example = "[\".dmtcp.temp=.dmtcp\"]")
            List<String> temporarySuffixes,

            @Key(
                    value = "false",
                    doc = "command: with as_job_user = false, whether the job's user writes the image (runuser,"
                            + " DMTCP). With true the restart runs as that user. With false root owns the image and"
                            + " restarts it",
                    example = "true")
            boolean imageAsJobUser,

            @Key(
                    value = "false",
                    doc = "command: whether the checkpoint command can write processes that are already stopped",
                    example = "true")
            boolean checkpointsHeld,

            @Key(
                    value = "true",
                    doc = "command: whether the processes write their own images (DMTCP). After a failure their"
                            + " writes succeed and are discarded, because an error could end the processes. false:"
                            + " a separate tool writes the images, and its writes fail with EIO",
                    example = "false")
            boolean inProcessWriter) {}

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

    /** Returns the checkpointers of a file of either role, even if the file has other mistakes. */
    public static Map<String, Checkpointer> load(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        CheckpointerConfig read = read(opened);
        opened.requireGood();
        return read.create();
    }

    /** Returns the installed BLCR, and the CRIU that the launcher found. */
    public static Map<String, Checkpointer> usual(Map<String, String> environment) {
        Map<String, CheckpointerSettings> settings = new LinkedHashMap<>();
        settings.put("blcr", CheckpointerSettings.Blcr.installed());
        settings.put("criu", CheckpointerSettings.Criu.of(criu(environment)));
        return new CheckpointerConfig(settings, Map.of(), Set.of()).create();
    }

    /** Returns the names of the checkpointers of a file, even if they have mistakes. */
    public static Set<String> namesIn(ConfigFile file) {
        return file.names(Keys.class);
    }

    /** Returns the command words that start CRIU. */
    public static List<String> criu(Map<String, String> environment) {
        List<String> words = environment
                .getOrDefault(CRIU_VARIABLE, "")
                .lines()
                .filter(word -> !word.isBlank())
                .toList();
        return words.isEmpty() ? List.of("criu") : words;
    }

    /** Returns the commands that root runs, by their keys in the file. */
    Map<String, List<String>> rootsCommands() {
        Map<String, List<String>> commands = new LinkedHashMap<>();
        settings.forEach((name, one) -> {
            for (List<String> words : one.rootsCommands()) {
                commands.put("checkpointers." + name + ": " + words.get(0), words);
            }
        });
        return commands;
    }

    /** Creates the checkpointers, by name. */
    Map<String, Checkpointer> create() {
        NativePrograms programs = NativePrograms.fromSystemProperty();
        Map<String, Checkpointer> all = new LinkedHashMap<>();
        settings.forEach((name, one) -> all.put(name, one.create(name, programs)));
        return all;
    }

    /** Users that this node does not have are a mistake. A misspelt name trusts no user. */
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
            case BLCR -> new CheckpointerSettings.Blcr(keys.blcr(), keys.namespaces());
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
        if (asJobUser && (keys.pages() == PagePolicy.STREAMED || keys.pages() == PagePolicy.PRECOPIED)) {
            section.bad(
                    "pages",
                    "is " + keys.pages().name().toLowerCase(Locale.ROOT)
                            + ", and as_job_user is true: pages are streamed by a CRIU that runs as root alone; leave"
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
        return new CheckpointerSettings.Criu(keys, asJobUser, namespaces);
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
                    keys.expectedNames(),
                    keys.completion(),
                    suffixes,
                    runAs,
                    keys.checkpointsHeld(),
                    keys.inProcessWriter(),
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
                        "'" + rule + "' is not valid; it must be TEMPORARY=FINAL, such as \".dmtcp.temp=.dmtcp\"");
            }
        }
        return suffixes;
    }
}
