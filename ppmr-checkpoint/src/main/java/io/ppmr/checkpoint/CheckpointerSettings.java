package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.linux.config.Key;
import io.ppmr.protocol.data.ReadingMode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The settings of a checkpointer. Immutable. {@link #create} makes the adapter. */
public sealed interface CheckpointerSettings {

    /** Returns the users that its commands run as. */
    RunAs runAs();

    /** Returns the commands that root runs, even if only for their version. */
    List<List<String>> rootsCommands();

    /** Makes the adapter with the default time limits, under the name from the configuration. */
    default Checkpointer create(String name, NativePrograms programs) {
        return create(name, programs, RankCommand.Timing.defaults());
    }

    /** Makes the adapter. */
    Checkpointer create(String name, NativePrograms programs, RankCommand.Timing timing);

    /** The keys of BLCR alone. */
    record BlcrKeys(
            @Key(
                    value = "cr_checkpoint",
                    doc = "blcr: the checkpoint command, a name or a path",
                    example = "/usr/bin/cr_checkpoint")
            String checkpointProgram,

            @Key(
                    value = "cr_restart",
                    doc = "blcr: the restart command, a name or a path",
                    example = "/usr/bin/cr_restart")
            String restartProgram,

            @Key(
                    value = "true",
                    doc = "blcr: whether its kernel module (/proc/checkpoint/ctrl) must be loaded",
                    example = "false")
            boolean kernelModule) {}

    /**
     * BLCR, by its two commands.
     *
     * @param keys its keys in a configuration
     * @param namespaces whether ranks are restored in their own namespaces; AUTO means no, because PIDs are not
     *     restored
     */
    record Blcr(BlcrKeys keys, NamespacePolicy namespaces) implements CheckpointerSettings {
        /** One with these programs. */
        public Blcr(String checkpointProgram, String restartProgram, boolean kernelModule, NamespacePolicy namespaces) {
            this(new BlcrKeys(checkpointProgram, restartProgram, kernelModule), namespaces);
        }

        @Override
        public RunAs runAs() {
            return RunAs.JOB_USER;
        }

        @Override
        public List<List<String>> rootsCommands() {
            return List.of(List.of(keys.checkpointProgram()), List.of(keys.restartProgram()));
        }

        /** Returns the settings for BLCR as it is installed on a node. */
        public static Blcr installed() {
            return new Blcr("cr_checkpoint", "cr_restart", true, NamespacePolicy.AUTO);
        }

        @Override
        public Checkpointer create(String name, NativePrograms programs, RankCommand.Timing timing) {
            return new BlcrCheckpointer(name, this, ToolKit.of(programs, timing));
        }
    }

    /** The keys of CRIU alone. */
    record CriuKeys(
            @Key(
                    value = "[\"criu\"]",
                    doc = "criu: the command words that start CRIU, version 4 or later",
                    example = "[\"/usr/sbin/criu\"]")
            List<String> program,

            @Key(value = "[]", doc = "criu: further arguments of criu dump", example = "[\"--ghost-limit\", \"64M\"]")
            List<String> dumpArguments,

            @Key(value = "[]", doc = "criu: further arguments of criu restore", example = "[\"--shell-job\"]")
            List<String> restoreArguments,

            @Key(
                    value = "[]",
                    doc = "criu, at a source: paths of Unix sockets of this node's servers to which a moved rank"
                            + " may be connected. A datagram socket is connected to the same path at the target. A"
                            + " stream socket (nscd, sssd) is shut down while the rank is stopped. Original and"
                            + " copy then see a connection that the server closed, and must connect again",
                    example = "[\"/dev/log\"]")
            List<String> externalSockets,

            @Key(
                    value = "refuse",
                    doc = "criu, at a source: the action for a rank with a process that has NoNewPrivs set and no"
                            + " system call filter, on a kernel with Landlock. Such a process may be in a Landlock"
                            + " sandbox, which CRIU cannot see and cannot save: the copy would run outside of it."
                            + " With refuse it is not moved. With warn it is moved, and the log has a line."
                            + " With allow it is moved."
                            + " Processes of pods are not in such a sandbox",
                    example = "warn")
            LandlockPolicy landlock,

            @Key(
                    value = "auto",
                    doc = "criu: how memory travels. With streamed it travels from the stopped original into the held"
                            + " copy, through the pool. With images it travels as image files, which the target"
                            + " stages until they are complete. With precopied it is copied to the target's staging"
                            + " while the job computes, and only the rest while it is stopped; without room there it"
                            + " is streamed. With auto ppmr chooses by the expected pause"
                            + " (docs/admin/checkpointers.md)",
                    example = "precopied")
            PagePolicy pages,

            @Key(
                    value = "false",
                    doc = "criu, at a target: whether a copy whose memory was copied while the job computed may run"
                            + " before all of it is in place. Pages that it needs come first. If the program that"
                            + " fills it is killed before, the copy is killed, too; and processes that it forks"
                            + " before share no memory with it that was missing then. A copy that belongs to root, and"
                            + " every copy on a kernel before Linux 6.18, is always held until it is whole",
                    example = "true")
            boolean fillBehind) {
        public CriuKeys {
            program = List.copyOf(program);
            dumpArguments = List.copyOf(dumpArguments);
            restoreArguments = List.copyOf(restoreArguments);
            externalSockets = List.copyOf(externalSockets);
        }
    }

    /**
     * CRIU.
     *
     * @param keys its keys in a configuration; the program is one path, or a private loader with its arguments before
     *     the path
     * @param asJobUser whether it runs unprivileged as the job's user, with CAP_CHECKPOINT_RESTORE only. Jobs of
     *     root run as root.
     * @param namespaces whether ranks are restored in their own namespaces; AUTO means yes, because PIDs are
     *     restored
     */
    record Criu(CriuKeys keys, boolean asJobUser, NamespacePolicy namespaces) implements CheckpointerSettings {

        public Criu {
            if (keys.program().isEmpty()) {
                throw new IllegalArgumentException("the CRIU program is empty. Remedy: name its path");
            }
            if (asJobUser && namespaces == NamespacePolicy.NEVER) {
                throw new IllegalArgumentException(
                        "CRIU as the job's user restores ranks only in namespaces of their own,"
                                + " so that all restored processes can be checked before they run. Remedy: leave"
                                + " namespaces at auto,"
                                + " or run it as root");
            }
        }

        /** Makes settings without connections to the node's servers. Ranks that may be in a sandbox are not moved. */
        public Criu(
                List<String> program,
                List<String> dumpArguments,
                List<String> restoreArguments,
                PagePolicy pages,
                boolean asJobUser,
                NamespacePolicy namespaces) {
            this(
                    new CriuKeys(
                            program, dumpArguments, restoreArguments, List.of(), LandlockPolicy.REFUSE, pages, false),
                    asJobUser,
                    namespaces);
        }

        /** Returns the settings with connections to these servers of the node. */
        public Criu withExternalSockets(List<String> paths) {
            return with(paths, keys.landlock(), keys.fillBehind());
        }

        /** Returns the settings with another treatment of possible sandboxes. */
        public Criu withLandlock(LandlockPolicy policy) {
            return with(keys.externalSockets(), policy, keys.fillBehind());
        }

        /** Returns the settings with copies that may run before they are whole. */
        public Criu withFillBehind() {
            return with(keys.externalSockets(), keys.landlock(), true);
        }

        private Criu with(List<String> sockets, LandlockPolicy policy, boolean fillBehind) {
            CriuKeys changed = new CriuKeys(
                    keys.program(),
                    keys.dumpArguments(),
                    keys.restoreArguments(),
                    sockets,
                    policy,
                    keys.pages(),
                    fillBehind);
            return new Criu(changed, asJobUser, namespaces);
        }

        @Override
        public RunAs runAs() {
            return asJobUser ? RunAs.JOB_USER : RunAs.ROOT;
        }

        @Override
        public List<List<String>> rootsCommands() {
            return List.of(keys.program());
        }

        /** Returns the settings for CRIU by the given words, as root, with defaults otherwise. */
        public static Criu of(List<String> program) {
            return new Criu(program, List.of(), List.of(), PagePolicy.AUTO, false, NamespacePolicy.AUTO);
        }

        /** Returns the settings for CRIU by the given words, as the job's user, with defaults otherwise. */
        public static Criu asJobUser(List<String> program) {
            return new Criu(program, List.of(), List.of(), PagePolicy.AUTO, true, NamespacePolicy.AUTO);
        }

        @Override
        public Checkpointer create(String name, NativePrograms programs, RankCommand.Timing timing) {
            return new CriuCheckpointer(name, this, ToolKit.of(programs, timing), CriuCheckpointer.Memory.IMAGES);
        }
    }

    /**
     * Any two commands, as words, run without a shell. The words may have these placeholders:
     * <ul>
     *   <li>{@code {pid}}: the root's PID (checkpoint only)
     *   <li>{@code {rank}}: the rank's number
     *   <li>{@code {file}}: the image file's path
     *   <li>{@code {dir}}: the rank's image directory
     *   <li>{@code {work}}: a folder for the command's own files, in which it starts
     *   <li>{@code {pidfile}}: a file in that folder (restart only). The command writes the restored root's PID, in
     *       its own PID namespace, and a line end into it.
     * </ul>
     *
     * <p>A checkpoint command has succeeded when it ends with status 0. A restart command with {@code {pidfile}} has
     * succeeded when that file is complete and the command ended with status 0 or still runs. The rank is the
     * root's tree. A restart command without {@code {pidfile}} keeps running. Its descendants are the rank, or it is
     * the rank itself if it has none. It has succeeded when all of the rank is stopped. In each case every process must
     * be stopped.
     *
     * @param checkpoint the checkpoint command
     * @param restart the restart command
     * @param readingMode how the restart reads
     * @param fileName the image file's name, for {@code {file}}; may contain {@code {rank}}
     * @param expectedNames names that the restart opens before they may exist; may contain {@code {rank}}
     * @param completionNames names among them whose open waits for the whole image
     * @param temporarySuffixes from a temporary name's suffix to the final one's: {@code .dmtcp.temp} to
     *     {@code .dmtcp}
     * @param runAs users of the commands
     * @param checkpointsHeldRanks whether the checkpoint command can write processes that are stopped already
     * @param writesInProcess whether the processes write their images themselves, as with DMTCP, so that a failed
     *     write could end them; false for a tool outside of the process
     * @param namespaces whether ranks are restored in their own namespaces; AUTO means no
     */
    record CommandTool(
            List<String> checkpoint,
            List<String> restart,
            ReadingMode readingMode,
            String fileName,
            List<String> expectedNames,
            List<String> completionNames,
            Map<String, String> temporarySuffixes,
            RunAs runAs,
            boolean checkpointsHeldRanks,
            boolean writesInProcess,
            NamespacePolicy namespaces)
            implements CheckpointerSettings {

        public CommandTool {
            checkpoint = List.copyOf(checkpoint);
            restart = List.copyOf(restart);
            expectedNames = List.copyOf(expectedNames);
            completionNames = List.copyOf(completionNames);
            temporarySuffixes = Map.copyOf(temporarySuffixes);
            CommandTemplate.require("checkpoint", checkpoint, CommandTemplate.CHECKPOINT_PLACEHOLDERS);
            CommandTemplate.require("restart", restart, CommandTemplate.RESTART_PLACEHOLDERS);
            if (fileName.isBlank() || fileName.contains("/")) {
                throw new IllegalArgumentException(
                        "the image file's name '" + fileName + "' has a path. Remedy: remove the path");
            }
            if (!expectedNames.containsAll(completionNames)) {
                throw new IllegalArgumentException("the completion names " + completionNames
                        + " are not all among the expected names " + expectedNames + ". Remedy: announce them, too");
            }
        }

        @Override
        public List<List<String>> rootsCommands() {
            List<List<String>> commands = new ArrayList<>();
            if (runAs.checkpointsAsRoot()) {
                commands.add(checkpoint);
            }
            if (runAs.restartsAsRoot()) {
                commands.add(restart);
            }
            return commands;
        }

        /**
         * Returns settings with one file for each rank, {@code image.RANK}, that is written and read front to back as
         * the job's user. The processes may write it themselves.
         */
        public static CommandTool streamed(List<String> checkpoint, List<String> restart) {
            return new CommandTool(
                    checkpoint,
                    restart,
                    ReadingMode.STREAMED,
                    "image.{rank}",
                    List.of("image.{rank}"),
                    List.of(),
                    Map.of(),
                    RunAs.JOB_USER,
                    false,
                    true,
                    NamespacePolicy.AUTO);
        }

        @Override
        public Checkpointer create(String name, NativePrograms programs, RankCommand.Timing timing) {
            return new CommandCheckpointer(name, this, ToolKit.of(programs, timing));
        }

        /**
         * Makes an adapter whose commands are children of this service, whatever the environment selects. They end with
         * the service.
         */
        public Checkpointer createDirect(String name, NativePrograms programs) {
            return new CommandCheckpointer(name, this, ToolKit.direct(programs));
        }
    }

    /** The way in which CRIU moves a rank's memory from its original into its copy. */
    enum PagePolicy {
        /** Copied before the pause or streamed if both nodes can and the job gains by it, otherwise as images. */
        AUTO,
        /**
         * Streamed into the held copy while the held original is still read, through the pool. If that is impossible,
         * the job is not moved.
         */
        STREAMED,
        /**
         * Copied to the target in rounds while the job computes. If the target's staging has no room for that, it is
         * streamed. If that is impossible, too, the job is not moved.
         */
        PRECOPIED,
        /** As a part of the images, which wait at the target until they are complete. */
        IMAGES
    }

    /** The treatment of a rank that may be in a Landlock sandbox. Its copy would be outside of the sandbox. */
    enum LandlockPolicy {
        /** The rank is not moved. */
        REFUSE,
        /** The rank is moved with a warning in the log. */
        WARN,
        /** The rank is moved. */
        ALLOW
    }

    /** The choice to restore a rank in its own PID and mount namespace, where every PID is free. */
    enum NamespacePolicy {
        /** Only for CRIU, which restores the old PIDs. These may be in use on this node. */
        AUTO,
        ALWAYS,
        NEVER
    }
}
