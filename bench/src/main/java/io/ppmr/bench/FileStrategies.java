package io.ppmr.bench;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.IntFunction;
import java.util.stream.Stream;

/**
 * The strategies of the paper that go through files: each phase ends before the next begins. The page cache is emptied
 * before files are read, which is not counted.
 */
final class FileStrategies {
    private static final Duration LIMIT = Duration.ofMinutes(15);
    private static final Duration SERVER_LIMIT = Duration.ofSeconds(20);
    private static final int PAGE_PORT = 2300;

    private final Services services;
    private final TwoNodes nodes;
    private final Path folder;
    private final CriuCommand criu;
    private final int processes;

    FileStrategies(Services services, Path folder, int processes) {
        this.services = services;
        this.nodes = services.nodes();
        this.folder = folder;
        this.criu = new CriuCommand(new NativePrograms(nodes.bin()));
        this.processes = processes;
    }

    /** Checkpoint to a local disk, copy with scp, restart from disk. */
    Run local() throws Exception {
        Path there = Files.createDirectories(folder.resolve("disk-b"));
        Path here = Files.createDirectories(folder.resolve("disk-a"));
        return byDisk(
                "local", there, () -> checkpoint(here), server -> copy(server, here, there), () -> restart(there));
    }

    /** A phase of a strategy. It lasts until this returns. */
    private interface Phase {
        void run() throws Exception;
    }

    /** A transfer that copies by an SSH server. */
    private interface Transfer {
        void by(SshServer server) throws Exception;
    }

    private SshServer startSshd() throws Exception {
        return SshServer.start(nodes.a(), nodes.b(), TwoNodes.ADDRESS_B, folder);
    }

    /** Runs and times the phases of a strategy whose files end in a directory of the other node. */
    private Run byDisk(String strategy, Path there, Phase write, Transfer transfer, Phase read) throws Exception {
        try (SshServer server = startSshd()) {
            Clock clock = new Clock();
            write.run();
            clock.ends("write");
            transfer.by(server);
            clock.ends("transfer");
            dropCaches();
            clock.resume();
            read.run();
            clock.ends("read");
            return clock.run(strategy, bytes(there));
        }
    }

    /** Checkpoint into a network filesystem that the other node serves, restart out of it. */
    Run shared() throws Exception {
        Path served = Files.createDirectories(folder.resolve("served"));
        Path fromA = Files.createDirectories(folder.resolve("shared-a"));
        Path fromB = Files.createDirectories(folder.resolve("shared-b"));
        try (SshServer server = startSshd()) {
            server.mount(nodes.a(), served, fromA);
            server.mount(nodes.b(), served, fromB);
            Clock clock = new Clock();
            checkpoint(fromA);
            clock.ends("write");
            dropCaches();
            clock.resume();
            restart(fromB);
            clock.ends("read");
            return clock.run("shared", bytes(served));
        }
    }

    /** CRIU's checkpoint on a local disk, a copy with scp, CRIU's restart from disk. */
    Run criuCopy() throws Exception {
        Path here = Files.createDirectories(folder.resolve("criu-a"));
        Path there = Files.createDirectories(folder.resolve("criu-b"));
        return byDisk(
                "criu-copy",
                there,
                () -> dump(here, rank -> List.of()),
                server -> copy(server, here, there),
                () -> criuRestart(there));
    }

    /**
     * Measures the strategy in which CRIU's own page server writes the pages on the other node's disk. scp copies the
     * other files.
     */
    Run criuPageServer() throws Exception {
        Path here = Files.createDirectories(folder.resolve("criu-a"));
        Path there = Files.createDirectories(folder.resolve("criu-b"));
        List<Process> servers = new ArrayList<>();
        Phase write = () -> {
            for (int rank = 0; rank < processes; rank++) {
                servers.add(pageServer(there, rank));
            }
            dump(here, rank -> {
                List<String> words = new ArrayList<>(List.of("--page-server"));
                words.addAll(pageAddress(rank));
                return words;
            });
        };
        try {
            return byDisk(
                    "criu-page-server", there, write, server -> copy(server, here, there), () -> criuRestart(there));
        } finally {
            servers.forEach(Process::destroyForcibly);
        }
    }

    private void dump(Path to, IntFunction<List<String>> more) throws Exception {
        List<Command.RunningCommand> dumps = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            List<String> arguments = new ArrayList<>(more.apply(rank));
            arguments.addAll(List.of(
                    "--tree", Files.readString(services.job().pidFile(rank)).strip(), "--leave-stopped"));
            dumps.add(start(criu.words("dump", Files.createDirectories(image(to, rank)), arguments)));
        }
        await(dumps);
    }

    private static List<String> pageAddress(int rank) {
        return List.of("--address", TwoNodes.ADDRESS_B, "--port", Integer.toString(PAGE_PORT + rank));
    }

    private Process pageServer(Path to, int rank) throws Exception {
        Process server = nodes.b()
                .command(criu.words("page-server", Files.createDirectories(image(to, rank)), pageAddress(rank)))
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        List<String> looking = nodes.b()
                .command(Command.words("ss -Hltn sport = :%s", PAGE_PORT + rank))
                .command();
        Conditions.until(
                SERVER_LIMIT,
                "CRIU's page server listens",
                () -> !Command.of(looking).run(SERVER_LIMIT).output().isBlank());
        return server;
    }

    private void copy(SshServer server, Path from, Path to) throws Exception {
        List<Path> images = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            images.add(image(from, rank));
        }
        server.copy(images, to);
        Programs.call(List.of("sync"));
    }

    /** Restores each rank in a PID namespace of its own, because its processes keep their PIDs. */
    private void criuRestart(Path from) throws Exception {
        restart((rank, mark) -> {
            List<String> words = new ArrayList<>(Command.words(
                    "unshare --pid --fork --kill-child --mount-proc -- sh -c %s %s",
                    "mark=$1; shift; \"$@\" && touch \"$mark\" && sleep 600", "sh"));
            words.add(mark.toString());
            words.addAll(criu.words("restore", image(from, rank), List.of("--restore-detached", "--leave-stopped")));
            return words;
        });
    }

    /** Makes a program that replaces cr_restart and writes the stream to a local disk first. */
    static Path stagingRestart(Path folder, Path bin) throws IOException {
        Path disk = Files.createDirectories(folder.resolve("staged"));
        Path program = bin.resolve("staged-restart");
        Files.writeString(program, """
                #!/bin/bash
                # As "RDMA+Local" of the paper: the image is first written to a local file, past the page cache.
                words=()
                while [ $# -gt 0 ]; do
                    if [ "$1" = --file ]; then
                        copy=%1$s/$(basename "$2")
                        dd if="$2" of="$copy" bs=1M iflag=fullblock oflag=direct conv=fsync 2>/dev/null || exit 5
                        words+=(--file "$copy")
                        shift 2
                    else
                        words+=("$1")
                        shift
                    fi
                done
                exec %2$s/cr_restart "${words[@]}"
                """.formatted(disk, bin));
        if (!program.toFile().setExecutable(true)) {
            throw new IOException(program + " cannot be made executable");
        }
        return program;
    }

    private void checkpoint(Path to) throws Exception {
        List<Command.RunningCommand> commands = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            commands.add(start(Command.words(
                    "%s --tree --file %s --noclobber --stop --time 600 %s",
                    nodes.bin().resolve("cr_checkpoint"),
                    image(to, rank),
                    Files.readString(services.job().pidFile(rank)).strip())));
        }
        await(commands);
    }

    private void restart(Path from) throws Exception {
        restart((rank, mark) -> Command.words(
                "%s --file %s --stop --no-restore-pid %s",
                services.restartProgram(), image(from, rank), "--run-on-success=touch " + mark));
    }

    /** Starts a command for each rank in the second node, and waits until each has made its mark, a file. */
    private void restart(BiFunction<Integer, Path, List<String>> command) throws Exception {
        List<Path> restored = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            Path mark = folder.resolve("restored-" + rank);
            Files.deleteIfExists(mark);
            restored.add(mark);
            nodes.b()
                    .command(command.apply(rank, mark))
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(folder.resolve("restart-" + rank + ".log").toFile())
                    .start();
        }
        Conditions.until(
                LIMIT, "every rank is restored", () -> restored.stream().allMatch(Files::exists));
    }

    private Command.RunningCommand start(List<String> words) throws IOException {
        return Command.of(nodes.a().command(words).command()).start();
    }

    private static void await(List<Command.RunningCommand> commands) throws IOException, InterruptedException {
        for (Command.RunningCommand command : commands) {
            command.await(LIMIT).requireOutput();
        }
    }

    static long bytes(Path directory) throws IOException {
        long sum = 0;
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                sum += Files.size(file);
            }
        }
        return sum;
    }

    private static Path image(Path directory, int rank) {
        return directory.resolve("context." + rank);
    }

    private static void dropCaches() throws Exception {
        Programs.call(List.of("sync"));
        Files.writeString(Path.of("/proc/sys/vm/drop_caches"), "3");
    }
}
