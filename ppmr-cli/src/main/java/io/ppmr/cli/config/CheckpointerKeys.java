package io.ppmr.cli.config;

import io.ppmr.checkpoint.NamespacePolicy;
import io.ppmr.checkpoint.ReadingMode;
import java.util.List;

/** The keys of {@code [checkpointers.NAME]}, which both roles have. */
public final class CheckpointerKeys {
    /** What kind of tool it is. */
    public enum Type {
        BLCR,
        CRIU,
        COMMAND
    }

    public static final ConfigKey<Type> TYPE =
            ConfigKey.required("type", ValueTypes.choice(Type.class), "what kind of tool it is");
    public static final ConfigKey<NamespacePolicy> NAMESPACES = ConfigKey.withDefault(
            "namespaces",
            ValueTypes.choice(NamespacePolicy.class),
            "auto",
            "whether a rank is restored in a PID namespace of its own; auto: where the tool restores the old PIDs");

    public static final ConfigKey<List<Object>> TRUSTED_USERS = ConfigKey.withDefault(
            "trusted_users",
            ValueTypes.NAMES_OR_NUMBERS,
            List.of(),
            "at a target, for a tool that restarts as root (criu; command with as_job_user = false): the users whose"
                    + " jobs it restores here, by name or number; root opens for them whatever paths an image names."
                    + " A job of any other user is refused");
    public static final ConfigKey<Boolean> FOR_ANNOUNCED_JOBS = ConfigKey.optional(
            "for_announced_jobs",
            ValueTypes.FLAG,
            "at a source: whether jobs that users announce may name it; without it true for a tool whose commands run"
                    + " as the job's user, false for one that runs as root");

    public static final ConfigKey<String> CHECKPOINT_PROGRAM = ConfigKey.withDefault(
            "checkpoint_program", ValueTypes.TEXT, "cr_checkpoint", "blcr: its checkpoint command, name or path");
    public static final ConfigKey<String> RESTART_PROGRAM = ConfigKey.withDefault(
            "restart_program", ValueTypes.TEXT, "cr_restart", "blcr: its restart command, name or path");
    public static final ConfigKey<Boolean> KERNEL_MODULE = ConfigKey.withDefault(
            "kernel_module",
            ValueTypes.FLAG,
            true,
            "blcr: whether its kernel module (/proc/checkpoint/ctrl) must be there");

    public static final ConfigKey<List<String>> PROGRAM = ConfigKey.withDefault(
            "program", ValueTypes.WORDS, List.of("criu"), "criu: the words that start it, CRIU 4 or later");
    public static final ConfigKey<List<String>> DUMP_ARGUMENTS = ConfigKey.withDefault(
            "dump_arguments", ValueTypes.WORDS, List.of(), "criu: further arguments of criu dump");
    public static final ConfigKey<List<String>> RESTORE_ARGUMENTS = ConfigKey.withDefault(
            "restore_arguments", ValueTypes.WORDS, List.of(), "criu: further arguments of criu restore");

    public static final ConfigKey<List<String>> CHECKPOINT = ConfigKey.optional(
            "checkpoint",
            ValueTypes.WORDS,
            "command: the checkpoint command, words without a shell; {pid} {rank} {file} {dir} {work} are filled in");
    public static final ConfigKey<List<String>> RESTART = ConfigKey.optional(
            "restart",
            ValueTypes.WORDS,
            "command: the restart command; {rank} {file} {dir} {work} {pidfile} are filled in");
    public static final ConfigKey<ReadingMode> READING = ConfigKey.withDefault(
            "reading",
            ValueTypes.choice(ReadingMode.class),
            "streamed",
            "command: how the restart reads, front to back or in any order");
    public static final ConfigKey<String> FILE = ConfigKey.withDefault(
            "file", ValueTypes.TEXT, "image.{rank}", "command: the image file's name, for {file}");
    public static final ConfigKey<List<String>> ANNOUNCED = ConfigKey.withDefault(
            "announced",
            ValueTypes.WORDS,
            List.of("image.{rank}"),
            "command: names that the restart opens before they may exist");
    public static final ConfigKey<List<String>> COMPLETION = ConfigKey.withDefault(
            "completion", ValueTypes.WORDS, List.of(), "command: those of them whose open waits for the whole image");
    public static final ConfigKey<List<String>> TEMPORARY_SUFFIXES = ConfigKey.withDefault(
            "temporary_suffixes",
            ValueTypes.WORDS,
            List.of(),
            "command: how temporary names end and what the final ones end in, such as \".dmtcp.temp=.dmtcp\"");
    public static final ConfigKey<Boolean> AS_JOB_USER = ConfigKey.withDefault(
            "as_job_user",
            ValueTypes.FLAG,
            true,
            "command: whether the commands run as the job's user, who then owns the image");
    public static final ConfigKey<Boolean> IMAGE_AS_JOB_USER = ConfigKey.withDefault(
            "image_as_job_user",
            ValueTypes.FLAG,
            false,
            "command: with as_job_user = false, whether the job's user writes the image all the same (runuser, DMTCP);"
                    + " then the restart runs as that user. Otherwise root owns the image and restarts it");
    public static final ConfigKey<Boolean> CHECKPOINTS_HELD = ConfigKey.withDefault(
            "checkpoints_held",
            ValueTypes.FLAG,
            false,
            "command: whether the checkpoint command can write processes that are stopped already");
    public static final ConfigKey<Boolean> WRITES_FROM_WITHIN = ConfigKey.withDefault(
            "writes_from_within",
            ValueTypes.FLAG,
            true,
            "command: whether the processes write their images themselves, as with DMTCP; then what they write after a"
                    + " failure is taken and thrown away, since an error could end them. false for a tool that runs"
                    + " beside the process: it gets EIO");

    static final List<ConfigKey<?>> OF_BLCR = List.of(CHECKPOINT_PROGRAM, RESTART_PROGRAM, KERNEL_MODULE);
    static final List<ConfigKey<?>> OF_CRIU = List.of(PROGRAM, DUMP_ARGUMENTS, RESTORE_ARGUMENTS);
    static final List<ConfigKey<?>> OF_COMMAND = List.of(
            CHECKPOINT,
            RESTART,
            READING,
            FILE,
            ANNOUNCED,
            COMPLETION,
            TEMPORARY_SUFFIXES,
            AS_JOB_USER,
            IMAGE_AS_JOB_USER,
            CHECKPOINTS_HELD,
            WRITES_FROM_WITHIN);

    public static final ConfigSection SECTION = new ConfigSection(
            "checkpointers",
            true,
            "A tool that checkpoints and restarts; its NAME is the same on source and target.",
            List.of(
                    TYPE,
                    NAMESPACES,
                    TRUSTED_USERS,
                    FOR_ANNOUNCED_JOBS,
                    CHECKPOINT_PROGRAM,
                    RESTART_PROGRAM,
                    KERNEL_MODULE,
                    PROGRAM,
                    DUMP_ARGUMENTS,
                    RESTORE_ARGUMENTS,
                    CHECKPOINT,
                    RESTART,
                    READING,
                    FILE,
                    ANNOUNCED,
                    COMPLETION,
                    TEMPORARY_SUFFIXES,
                    AS_JOB_USER,
                    IMAGE_AS_JOB_USER,
                    CHECKPOINTS_HELD,
                    WRITES_FROM_WITHIN));

    private CheckpointerKeys() {}
}
