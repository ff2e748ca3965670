package io.ppmr.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The strategies of the paper that go through files: each phase ends before the next begins. The page cache is emptied
 * before files are read, which is not counted.
 */
final class FileStrategies {
    private static final Duration LIMIT = Duration.ofMinutes(15);
    private static final int PORT = 2222;
    private static final double NS_A_SECOND = 1e9;

    private final TwoNodes nodes;
    private final Path folder;
    private final int processes;

    FileStrategies(TwoNodes nodes, Path folder, int processes) {
        this.nodes = nodes;
        this.folder = folder;
        this.processes = processes;
    }

    /** Checkpoint to a local disk, copy with scp, restart from disk. */
    Run local() throws BenchFailure, IOException, InterruptedException {
        Path there = Files.createDirectories(folder.resolve("disk-b"));
        Path here = Files.createDirectories(folder.resolve("disk-a"));
        Process server = startSshd();
        try {
            Clock clock = new Clock();
            checkpoint(here);
            clock.ends("write");
            List<Process> copies = new ArrayList<>();
            for (int rank = 0; rank < processes; rank++) {
                List<String> words = new ArrayList<>(List.of("scp", "-q", "-P", Integer.toString(PORT)));
                words.addAll(sshOptions());
                words.addAll(List.of(image(here, rank).toString(), "root@" + TwoNodes.ADDRESS_B + ":" + there + "/"));
                copies.add(nodes.a().command(words).start());
            }
            await(copies, "scp");
            Programs.call(List.of("sync"));
            clock.ends("transfer");
            dropCaches();
            clock.goesOn();
            restart(there);
            clock.ends("read");
            return clock.phases("local", bytes(there)).run(null, null);
        } finally {
            server.destroyForcibly();
        }
    }

    /** Checkpoint into a network filesystem that the other node serves, restart out of it. */
    Run shared() throws BenchFailure, IOException, InterruptedException {
        Path served = Files.createDirectories(folder.resolve("served"));
        Path fromA = Files.createDirectories(folder.resolve("shared-a"));
        Path fromB = Files.createDirectories(folder.resolve("shared-b"));
        Process server = startSshd();
        try {
            mount(nodes.a().prefix(), served, fromA);
            mount(nodes.b().prefix(), served, fromB);
            Clock clock = new Clock();
            checkpoint(fromA);
            clock.ends("write");
            dropCaches();
            clock.goesOn();
            restart(fromB);
            clock.ends("read");
            return clock.phases("shared", bytes(served)).run(null, null);
        } finally {
            server.destroyForcibly();
        }
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

    private void checkpoint(Path to) throws BenchFailure, IOException, InterruptedException {
        List<Process> commands = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            commands.add(nodes.a()
                    .command(List.of(
                            nodes.bin().resolve("cr_checkpoint").toString(),
                            "--tree",
                            "--file",
                            image(to, rank).toString(),
                            "--noclobber",
                            "--stop",
                            "--time",
                            "600",
                            Files.readString(nodes.pidFile(rank)).strip()))
                    .start());
        }
        await(commands, "cr_checkpoint");
    }

    private void restart(Path from) throws IOException, InterruptedException {
        List<Path> restored = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            Path mark = folder.resolve("restored-" + rank);
            Files.deleteIfExists(mark);
            restored.add(mark);
            nodes.b()
                    .command(List.of(
                            nodes.bin().resolve("cr_restart").toString(),
                            "--file",
                            image(from, rank).toString(),
                            "--stop",
                            "--no-restore-pid",
                            "--run-on-success=touch " + mark))
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(folder.resolve("restart-" + rank + ".log").toFile())
                    .start();
        }
        Waiting.until(
                LIMIT, "every rank to be restored", () -> restored.stream().allMatch(Files::exists));
    }

    private static void await(List<Process> commands, String what)
            throws BenchFailure, IOException, InterruptedException {
        for (Process command : commands) {
            byte[] said = command.getErrorStream().readAllBytes();
            if (command.waitFor() != 0) {
                throw new BenchFailure(what + " failed: " + new String(said, java.nio.charset.StandardCharsets.UTF_8));
            }
        }
    }

    private Process startSshd() throws BenchFailure, IOException, InterruptedException {
        for (String needed : List.of("sshd", "scp", "sshfs")) {
            if (!Programs.present(needed)) {
                throw new BenchFailure(needed + " is missing: install openssh-server, openssh-client and sshfs");
            }
        }
        Files.createDirectories(Path.of("/run/sshd"));
        Path key = folder.resolve("ssh-key");
        if (!Files.exists(key)) {
            Programs.call(List.of("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key.toString()));
        }
        Process server = nodes.b()
                .command(List.of(
                        "/usr/sbin/sshd",
                        "-D",
                        "-f",
                        "/dev/null",
                        "-p",
                        Integer.toString(PORT),
                        "-h",
                        key.toString(),
                        "-o",
                        "AuthorizedKeysFile=" + key + ".pub",
                        "-o",
                        "PermitRootLogin=yes",
                        "-o",
                        "StrictModes=no",
                        "-o",
                        "PidFile=none",
                        "-o",
                        "MaxStartups=100",
                        "-o",
                        "Subsystem=sftp internal-sftp"))
                .redirectError(folder.resolve("sshd.log").toFile())
                .start();
        List<String> words = new ArrayList<>(nodes.a().prefix());
        words.addAll(List.of("ssh", "-p", Integer.toString(PORT)));
        words.addAll(sshOptions());
        words.addAll(List.of("root@" + TwoNodes.ADDRESS_B, "true"));
        Waiting.until(Duration.ofSeconds(20), "sshd in the second node (its log: sshd.log)", () -> succeeds(words));
        return server;
    }

    private static boolean succeeds(List<String> words) {
        try {
            Programs.call(words);
            return true;
        } catch (BenchFailure | IOException e) {
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private List<String> sshOptions() {
        return List.of(
                "-i",
                folder.resolve("ssh-key").toString(),
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
                "-o",
                "LogLevel=ERROR");
    }

    private void mount(List<String> prefix, Path served, Path at)
            throws BenchFailure, IOException, InterruptedException {
        List<String> words = new ArrayList<>(prefix);
        words.addAll(List.of(
                "sshfs",
                "-p",
                Integer.toString(PORT),
                "-o",
                "direct_io,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR,IdentityFile="
                        + folder.resolve("ssh-key"),
                "root@" + TwoNodes.ADDRESS_B + ":" + served,
                at.toString()));
        Process mounting = new ProcessBuilder(words)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(folder.resolve("sshfs.log").toFile())
                .start();
        if (mounting.waitFor() != 0) {
            throw new BenchFailure("sshfs: " + Files.readString(folder.resolve("sshfs.log")));
        }
    }

    private long bytes(Path directory) throws IOException {
        long sum = 0;
        for (int rank = 0; rank < processes; rank++) {
            sum += Files.size(image(directory, rank));
        }
        return sum;
    }

    private static Path image(Path directory, int rank) {
        return directory.resolve("context." + rank);
    }

    private static void dropCaches() throws BenchFailure, IOException, InterruptedException {
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

        private Phases phases(String strategy, long bytes) {
            return Phases.of(strategy, bytes, soFar, phases);
        }
    }
}
