package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.os.config.Key;
import io.ppmr.protocol.data.ReadingMode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The settings of a checkpointer. Immutable; {@link #create} makes the adapter of them. */
public sealed interface CheckpointerSettings {

    /** Returns the users that its commands run as. */
    RunAs runAs();

    /** Returns the commands that root runs, if only to ask for their version. */
    List<List<String>> rootsCommands();

    /** Makes the adapter with the usual waits, under the name that the configuration gives it. */
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
     * @param namespaces whether ranks are restored in a namespace of their own; AUTO is no, since PIDs are not restored
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

        /** BLCR as it is installed on a node. */
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
                            + " refuse: do not move it. warn: move it, with a line in the log. allow: move it."
                            + " Processes of pods are not in such a sandbox",
                    example = "warn")
            LandlockPolicy landlock,

            @Key(
                    value = "auto",
                    doc = "criu: how memory travels. streamed: from the stopped original into the held copy,"
                            + " through the pool. images: as image files, which the target stages until they are"
                            + " complete. auto: streamed if both nodes can and the job gains by it (docs/criu.md)",
                    example = "images")
            PagePolicy pages) {
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
     * @param asJobUser whether it runs as the job's user with CAP_CHECKPOINT_RESTORE alone, in its unprivileged mode;
     *     jobs of root's run as root
     * @param namespaces whether ranks are restored in a namespace of their own; AUTO is yes, since PIDs are restored
     */
    record Criu(CriuKeys keys, boolean asJobUser, NamespacePolicy namespaces) implements CheckpointerSettings {

        public Criu {
            if (keys.program().isEmpty()) {
                throw new IllegalArgumentException("the CRIU program is empty. Remedy: name its path");
            }
            if (asJobUser && namespaces == NamespacePolicy.NEVER) {
                throw new IllegalArgumentException("CRIU as the job's user restores ranks in namespaces of their own,"
                        + " where all that was restored is seen before it runs. Remedy: leave namespaces at auto, or"
                        + " run it as root");
            }
        }

        /** One without connections to servers of the node, which moves nothing that may be in a sandbox. */
        public Criu(
                List<String> program,
                List<String> dumpArguments,
                List<String> restoreArguments,
                PagePolicy pages,
                boolean asJobUser,
                NamespacePolicy namespaces) {
            this(
                    new CriuKeys(program, dumpArguments, restoreArguments, List.of(), LandlockPolicy.REFUSE, pages),
                    asJobUser,
                    namespaces);
        }

        /** The same with connections to these servers of the node. */
        public Criu withExternalSockets(List<String> paths) {
            return with(paths, keys.landlock());
        }

        /** The same with another treatment of what may be in a sandbox. */
        public Criu withLandlock(LandlockPolicy policy) {
            return with(keys.externalSockets(), policy);
        }

        private Criu with(List<String> sockets, LandlockPolicy policy) {
            CriuKeys changed = new CriuKeys(
                    keys.program(), keys.dumpArguments(), keys.restoreArguments(), sockets, policy, keys.pages());
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

        /** CRIU started by the given words, as root, with nothing further. */
        public static Criu of(List<String> program) {
            return new Criu(program, List.of(), List.of(), PagePolicy.AUTO, false, NamespacePolicy.AUTO);
        }

        /** CRIU started by the given words, as the job's user, with nothing further. */
        public static Criu asJobUser(List<String> program) {
            return new Criu(program, List.of(), List.of(), PagePolicy.AUTO, true, NamespacePolicy.AUTO);
        }

        @Override
        public Checkpointer create(String name, NativePrograms programs, RankCommand.Timing timing) {
            return new CriuCheckpointer(name, this, ToolKit.of(programs, timing), false);
        }
    }

    /**
     * Any two commands, as words, run without a shell. Placeholders in the words: {@code {pid}} the root's PID
     * (checkpoint only), {@code {rank}}, {@code {file}} the image file's path, {@code {dir}} the rank's image
     * directory, {@code {work}} a folder for the command's own files, in which it starts, {@code {pidfile}} (restart
     * only) a file in there into which the command writes the PID of the restored root, as the command sees it, and a
     * line end.
     *
     * <p>A checkpoint command has succeeded when it ends with status 0. A restart command with {@code {pidfile}} has
     * succeeded when that file is complete and the command has ended with status 0 or still runs; the rank is the
     * root's tree. A restart command without {@code {pidfile}} stays: what descends from it, or it itself when nothing
     * does, is the rank, and success is that all of it is stopped. In each case every process must be stopped.
     *
     * @param checkpoint the checkpoint command
     * @param restart the restart command
     * @param readingMode how the restart reads
     * @param fileName the image file's name, for {@code {file}}; may contain {@code {rank}}
     * @param expectedNames names that the restart opens before they may exist; may contain {@code {rank}}
     * @param completionNames those of them whose open waits for the whole image
     * @param temporarySuffixes from a temporary name's suffix to the final one's: {@code .dmtcp.temp} to {@code .dmtcp}
     * @param runAs the users that the commands run as
     * @param checkpointsHeldRanks whether the checkpoint command can write processes that are stopped already
     * @param writesInProcess whether the processes write their images themselves, as with DMTCP, so that a write that
     *     fails could end them; false for a tool that runs beside the process
     * @param namespaces whether ranks are restored in a namespace of their own; AUTO is no
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
                        "the image file's name '" + fileName + "' is not a plain name. Remedy: name it without a path");
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
         * One file a rank, {@code image.RANK}, written and read front to back, as the job's user; by the processes
         * themselves as far as is known.
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

        /** The adapter whose commands are children of this service, whatever the environment says: they end with it. */
        public Checkpointer createDirect(String name, NativePrograms programs) {
            return new CommandCheckpointer(name, this, ToolKit.direct(programs));
        }
    }

    /** The way in which CRIU moves a rank's memory from its original into its copy. */
    enum PagePolicy {
        /** Streamed where both nodes can and the job gains by it, else as images. */
        AUTO,
        /** Into the held copy while the held original is still read, through the pool; else the job is not moved. */
        STREAMED,
        /** As a part of the images, which wait at the target until they are whole. */
        IMAGES
    }

    /** Says what becomes of a rank that may be in a sandbox of Landlock, of which its copy would be out. */
    enum LandlockPolicy {
        /** It is not moved. */
        REFUSE,
        /** It is moved, and the log says so. */
        WARN,
        /** It is moved. */
        ALLOW
    }

    /** The choice to restore a rank in a PID and mount namespace of its own, where every PID is free. */
    enum NamespacePolicy {
        /** Only for a tool that restores the old PIDs, which may be taken on this node: CRIU. */
        AUTO,
        ALWAYS,
        NEVER
    }
}
