package io.ppmr.cli.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.NamespacePolicy;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.RunAs;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** Reads {@code [checkpointers.NAME]}. */
final class Checkpointers {
    private static final String ANOTHER_TYPE = "means nothing for this type: take it out";

    private Checkpointers() {}

    /**
     * What the file says of them.
     *
     * @param settings of each, by name; those with mistakes are left out
     * @param trustedUsers whom a target trusts with each, by number
     * @param forAnnouncedJobs the names of those that an announced job may name at a source
     */
    record Read(
            Map<String, CheckpointerSettings> settings,
            Map<String, Set<Integer>> trustedUsers,
            Set<String> forAnnouncedJobs) {}

    static Read read(ConfigFile file) {
        Read all = new Read(new LinkedHashMap<>(), new LinkedHashMap<>(), new TreeSet<>());
        file.sections(CheckpointerKeys.SECTION).forEach((name, section) -> {
            CheckpointerSettings settings = settings(section);
            Set<Integer> trusted = trustedUsers(file, section);
            Boolean announced = section.get(CheckpointerKeys.FOR_ANNOUNCED_JOBS);
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

    /** Users whom this node does not know are a mistake: a name that is misspelt trusts nobody. */
    private static Set<Integer> trustedUsers(ConfigFile file, ConfigFile.Section section) {
        Set<Integer> uids = new TreeSet<>();
        List<Object> users = section.get(CheckpointerKeys.TRUSTED_USERS);
        if (users == null || !file.here()) {
            return uids;
        }
        for (Object user : users) {
            try {
                uids.add(JobUsers.user(user));
            } catch (BadValueException e) {
                section.bad(CheckpointerKeys.TRUSTED_USERS, e.getMessage());
            }
        }
        return uids;
    }

    static Map<String, Checkpointer> create(Map<String, CheckpointerSettings> settings) {
        NativePrograms programs = NativePrograms.fromSystemProperty();
        Map<String, Checkpointer> all = new LinkedHashMap<>();
        settings.forEach((name, one) -> all.put(name, new NamedCheckpointer(name, one.create(programs))));
        return all;
    }

    private static CheckpointerSettings settings(ConfigFile.Section section) {
        CheckpointerKeys.Type type = section.get(CheckpointerKeys.TYPE);
        NamespacePolicy namespaces = section.get(CheckpointerKeys.NAMESPACES);
        if (type == null || namespaces == null) {
            return null;
        }
        return switch (type) {
            case BLCR -> blcr(section, namespaces);
            case CRIU -> criu(section, namespaces);
            case COMMAND -> command(section, namespaces);
        };
    }

    private static CheckpointerSettings blcr(ConfigFile.Section section, NamespacePolicy namespaces) {
        section.refuse(CheckpointerKeys.OF_CRIU, ANOTHER_TYPE);
        section.refuse(CheckpointerKeys.OF_COMMAND, ANOTHER_TYPE);
        String checkpoint = section.get(CheckpointerKeys.CHECKPOINT_PROGRAM);
        String restart = section.get(CheckpointerKeys.RESTART_PROGRAM);
        Boolean module = section.get(CheckpointerKeys.KERNEL_MODULE);
        return checkpoint == null || restart == null || module == null
                ? null
                : new CheckpointerSettings.Blcr(checkpoint, restart, module, namespaces);
    }

    private static CheckpointerSettings criu(ConfigFile.Section section, NamespacePolicy namespaces) {
        section.refuse(CheckpointerKeys.OF_BLCR, ANOTHER_TYPE);
        section.refuse(CheckpointerKeys.OF_COMMAND, ANOTHER_TYPE);
        List<String> program = section.get(CheckpointerKeys.PROGRAM);
        List<String> dump = section.get(CheckpointerKeys.DUMP_ARGUMENTS);
        List<String> restore = section.get(CheckpointerKeys.RESTORE_ARGUMENTS);
        if (program != null && program.isEmpty()) {
            section.bad(CheckpointerKeys.PROGRAM, "is empty: name the program, such as [\"criu\"]");
            return null;
        }
        return program == null || dump == null || restore == null
                ? null
                : new CheckpointerSettings.Criu(program, dump, restore, namespaces);
    }

    private static CheckpointerSettings command(ConfigFile.Section section, NamespacePolicy namespaces) {
        section.refuse(CheckpointerKeys.OF_BLCR, ANOTHER_TYPE);
        section.refuse(CheckpointerKeys.OF_CRIU, ANOTHER_TYPE);
        List<Object> values = new ArrayList<>();
        for (ConfigKey<?> key : CheckpointerKeys.OF_COMMAND) {
            values.add(section.get(key));
        }
        for (ConfigKey<?> command : List.of(CheckpointerKeys.CHECKPOINT, CheckpointerKeys.RESTART)) {
            if (!section.has(command)) {
                section.bad(
                        command,
                        "is missing; a checkpointer of type command needs it, "
                                + command.type().form());
            }
        }
        Map<String, String> suffixes = suffixes(section);
        if (values.contains(null) || suffixes == null) {
            return null;
        }
        try {
            return new CheckpointerSettings.Command(
                    section.get(CheckpointerKeys.CHECKPOINT),
                    section.get(CheckpointerKeys.RESTART),
                    section.get(CheckpointerKeys.READING),
                    section.get(CheckpointerKeys.FILE),
                    section.get(CheckpointerKeys.ANNOUNCED),
                    section.get(CheckpointerKeys.COMPLETION),
                    suffixes,
                    runAs(section),
                    section.get(CheckpointerKeys.CHECKPOINTS_HELD),
                    section.get(CheckpointerKeys.WRITES_FROM_WITHIN),
                    namespaces);
        } catch (IllegalArgumentException e) {
            section.bad(CheckpointerKeys.TYPE, e.getMessage());
            return null;
        }
    }

    private static RunAs runAs(ConfigFile.Section section) {
        if (section.get(CheckpointerKeys.AS_JOB_USER)) {
            return RunAs.JOB_USER;
        }
        return section.get(CheckpointerKeys.IMAGE_AS_JOB_USER) ? RunAs.ROOT_THEN_JOB_USER : RunAs.ROOT;
    }

    private static Map<String, String> suffixes(ConfigFile.Section section) {
        List<String> rules = section.get(CheckpointerKeys.TEMPORARY_SUFFIXES);
        if (rules == null) {
            return null;
        }
        Map<String, String> suffixes = new HashMap<>();
        for (String rule : rules) {
            int equals = rule.indexOf('=');
            if (equals <= 0) {
                section.bad(
                        CheckpointerKeys.TEMPORARY_SUFFIXES,
                        "'" + rule + "' will not do; it must be TEMPORARY=FINAL, such as \".dmtcp.temp=.dmtcp\"");
                return null;
            }
            suffixes.put(rule.substring(0, equals), rule.substring(equals + 1));
        }
        return suffixes;
    }
}
