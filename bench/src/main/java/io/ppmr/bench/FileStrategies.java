package io.ppmr.bench;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.os.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Node;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.IntFunction;
import java.util.stream.Stream;

/**
 * The strategies of the paper that go through files: each phase ends before the next begins. The page cache is emptied
 * before files are read, which is not counted.
 */
final class FileStrategies {
    private static final Duration LIMIT = Duration.ofMinutes(15);
    private static final Duration SSHD_LIMIT = Duration.ofSeconds(20);
    private static final int PORT = 2222;
    private static final int PAGE_PORT = 2300;
    /** ppmr-launch sets CRIU_FAULT to this where hardware breakpoints stop no process. */
    private static final String BREAKPOINTS = "130";

    private static final double NS_A_SECOND = 1e9;

    /** Of whoever calls ssh(1), scp(1) or sshfs(1); the server's key is made for one run. */
    private static final String CLIENT =
            "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentityFile=%s";

    private final Services services;
    private final TwoNodes nodes;
    private final Path folder;
    private final Path key;
    private final int processes;

    FileStrategies(Services services, Path folder, int processes) {
        this.services = services;
        this.nodes = services.nodes();
        this.folder = folder;
        this.key = folder.resolve("ssh-key");
        this.processes = processes;
    }

    /** Checkpoint to a local disk, copy with scp, restart from disk. */
    Run local() throws Exception {
        Path there = Files.createDirectories(folder.resolve("disk-b"));
        Path here = Files.createDirectories(folder.resolve("disk-a"));
        return byDisk("local", there, () -> checkpoint(here), () -> copy(here, there), () -> restart(there));
    }

    /** A phase of a strategy; it lasts until this returns. */
    private interface Phase {
        void run() throws Exception;
    }

    /** Runs and times the phases of a strategy whose files end in a directory of the other node. */
    private Run byDisk(String strategy, Path there, Phase write, Phase transfer, Phase read) throws Exception {
        Process server = startSshd();
        try {
            Clock clock = new Clock();
            write.run();
            clock.ends("write");
            transfer.run();
            clock.ends("transfer");
            dropCaches();
            clock.goesOn();
            read.run();
            clock.ends("read");
            return clock.run(strategy, bytes(there));
        } finally {
            server.destroyForcibly();
        }
    }

    /** Checkpoint into a network filesystem that the other node serves, restart out of it. */
    Run shared() throws Exception {
        Path served = Files.createDirectories(folder.resolve("served"));
        Path fromA = Files.createDirectories(folder.resolve("shared-a"));
        Path fromB = Files.createDirectories(folder.resolve("shared-b"));
        Process server = startSshd();
        try {
            mount(nodes.a(), served, fromA);
            mount(nodes.b(), served, fromB);
            Clock clock = new Clock();
            checkpoint(fromA);
            clock.ends("write");
            dropCaches();
            clock.goesOn();
            restart(fromB);
            clock.ends("read");
            return clock.run("shared", bytes(served));
        } finally {
            server.destroyForcibly();
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
                () -> copy(here, there),
                () -> criuRestart(there));
    }

    /** The same, but CRIU's own page server writes the pages on the other node's disk; scp copies the rest. */
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
            return byDisk("criu-page-server", there, write, () -> copy(here, there), () -> criuRestart(there));
        } finally {
            servers.forEach(Process::destroyForcibly);
        }
    }

    /** CRIU as the services call it, where hardware breakpoints stop no process too. */
    private List<String> criu(String command, Path images, List<String> more) {
        List<String> words = new ArrayList<>(
                List.of(new NativePrograms(nodes.bin()).launch().toString(), "--breakpoints", BREAKPOINTS, "--"));
        words.addAll(CheckpointerConfig.criu(System.getenv()));
        words.addAll(List.of(command, "--images-dir", images.toString(), "--log-file", command + ".log"));
        words.addAll(more);
        return words;
    }

    private void dump(Path to, IntFunction<List<String>> more) throws Exception {
        List<Command.Running> dumps = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            List<String> arguments = new ArrayList<>(more.apply(rank));
            arguments.addAll(List.of(
                    "--tree", Files.readString(services.job().pidFile(rank)).strip(), "--leave-stopped"));
            dumps.add(start(criu("dump", Files.createDirectories(image(to, rank)), arguments)));
        }
        await(dumps);
    }

    private static List<String> pageAddress(int rank) {
        return List.of("--address", TwoNodes.ADDRESS_B, "--port", Integer.toString(PAGE_PORT + rank));
    }

    private Process pageServer(Path to, int rank) throws Exception {
        Process server = nodes.b()
                .command(criu("page-server", Files.createDirectories(image(to, rank)), pageAddress(rank)))
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        List<String> looking = nodes.b()
                .command(Programs.words("ss -Hltn sport = :%s", PAGE_PORT + rank))
                .command();
        Conditions.until(
                SSHD_LIMIT,
                "CRIU's page server listens",
                () -> !Command.of(looking).run(SSHD_LIMIT).output().isBlank());
        return server;
    }

    private void copy(Path from, Path to) throws Exception {
        List<Command.Running> copies = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            copies.add(start(Programs.words(
                    "scp -q -r -P %s " + CLIENT + " %s %s", PORT, key, image(from, rank), at(to) + "/")));
        }
        await(copies);
        Programs.call(List.of("sync"));
    }

    /** Each rank in a PID namespace of its own, since its processes have the PIDs that they had. */
    private void criuRestart(Path from) throws Exception {
        restart((rank, mark) -> {
            List<String> words = new ArrayList<>(Programs.words(
                    "unshare --pid --fork --kill-child --mount-proc -- sh -c %s %s",
                    "mark=$1; shift; \"$@\" && touch \"$mark\" && sleep 600", "sh"));
            words.add(mark.toString());
            words.addAll(criu("restore", image(from, rank), List.of("--restore-detached", "--leave-stopped")));
            return words;
        });
    }

    /** A program that stands where cr_restart stands and writes the stream to a local disk first. */
    static Path stagingRestart(Path folder, Path bin) throws IOException {
        Path disk = Files.createDirectories(folder.resolve("staged"));
        Path program = bin.resolve("staged-restart");
        Files.writeString(program, """
                #!/bin/bash
                # As "RDMA+Local" of the paper: the image goes to a local file, past the page cache, first.
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
        List<Command.Running> commands = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            commands.add(start(Programs.words(
                    "%s --tree --file %s --noclobber --stop --time 600 %s",
                    nodes.bin().resolve("cr_checkpoint"),
                    image(to, rank),
                    Files.readString(services.job().pidFile(rank)).strip())));
        }
        await(commands);
    }

    private void restart(Path from) throws Exception {
        restart((rank, mark) -> Programs.words(
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

    private Command.Running start(List<String> words) throws IOException {
        return Command.of(nodes.a().command(words).command()).start();
    }

    private static void await(List<Command.Running> commands) throws IOException, InterruptedException {
        for (Command.Running command : commands) {
            command.await(LIMIT).requireOutput();
        }
    }

    private Process startSshd() throws Exception {
        for (String needed : List.of("sshd", "scp", "sshfs")) {
            if (!Programs.present(needed)) {
                throw new IOException(needed + " is missing: install openssh-server, openssh-client and sshfs");
            }
        }
        Files.createDirectories(Path.of("/run/sshd"));
        if (!Files.exists(key)) {
            Programs.call(Programs.words("ssh-keygen -q -t ed25519 -N %s -f %s", "", key));
        }
        Process server = nodes.b()
                .command(Programs.words(
                        "/usr/sbin/sshd -D -f /dev/null -p %s -h %s -o AuthorizedKeysFile=%s.pub -o PermitRootLogin=yes"
                                + " -o StrictModes=no -o PidFile=none -o MaxStartups=100 -o %s",
                        PORT, key, key, "Subsystem=sftp internal-sftp"))
                .redirectError(folder.resolve("sshd.log").toFile())
                .start();
        List<String> asking = nodes.a()
                .command(Programs.words("ssh -p %s " + CLIENT + " root@%s true", PORT, key, TwoNodes.ADDRESS_B))
                .command();
        Conditions.until(SSHD_LIMIT, "sshd answers in the second node (its log: sshd.log)", () -> Command.of(asking)
                .run(SSHD_LIMIT)
                .succeeded());
        return server;
    }

    private static String at(Path directory) {
        return "root@" + TwoNodes.ADDRESS_B + ":" + directory;
    }

    private void mount(Node node, Path served, Path at) throws IOException, InterruptedException {
        List<String> words = Programs.words("sshfs -p %s -o direct_io " + CLIENT + " %s %s", PORT, key, at(served), at);
        // It goes on in the background and keeps its output.
        Process mounting = node.command(words)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(folder.resolve("sshfs.log").toFile())
                .start();
        Programs.end(mounting, SSHD_LIMIT.toSeconds());
        if (mounting.waitFor() != 0) {
            throw new IOException("sshfs: " + Files.readString(folder.resolve("sshfs.log")));
        }
    }

    private static long bytes(Path directory) throws IOException {
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

    /** Notes the ends of phases; what happens between an end and {@link #goesOn} is not counted. */
    private static final class Clock {
        private final Map<String, double[]> phases = new LinkedHashMap<>();
        private long sinceNs = System.nanoTime();
        private double soFar;

        private void ends(String phase) {
            double length = (System.nanoTime() - sinceNs) / NS_A_SECOND;
            phases.put(phase, new double[] {soFar, soFar + length});
            soFar += length;
            goesOn();
        }

        private void goesOn() {
            sinceNs = System.nanoTime();
        }

        private Run run(String strategy, long bytes) {
            // The job stands still from the beginning to the end.
            return Run.migration(strategy, bytes, soFar, phases, null, null, soFar);
        }
    }
}
