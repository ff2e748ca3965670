package io.ppmr.bench;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** An SSH server in one node, and what another node copies to it or mounts of it. Its keys are made for one run. */
final class SshServer implements AutoCloseable {
    private static final Duration LIMIT = Duration.ofSeconds(20);
    private static final Duration COPY_LIMIT = Duration.ofMinutes(15);
    private static final int PORT = 2222;

    /** The client's key for ssh(1), scp(1) and sshfs(1). The server's key is made for one run. */
    private static final String CLIENT =
            "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentityFile=%s";

    private final Process process;
    private final TestNode from;
    private final String address;
    private final Path folder;
    private final Path key;

    private SshServer(Process process, TestNode from, String address, Path folder, Path key) {
        this.process = process;
        this.from = from;
        this.address = address;
        this.folder = folder;
        this.key = key;
    }

    /**
     * Starts one, and waits until it answers.
     *
     * @param from the node that copies
     * @param at the node of the server
     * @param address the server's
     * @param folder for keys and logs
     */
    static SshServer start(TestNode from, TestNode at, String address, Path folder) throws Exception {
        for (String needed : List.of("sshd", "scp", "sshfs")) {
            if (!Programs.present(needed)) {
                throw new IOException(needed + " is missing: install openssh-server, openssh-client and sshfs");
            }
        }
        at.run(LIMIT, "mkdir", "-p", "/run/sshd");
        Path key = folder.resolve("ssh-key");
        if (!Files.exists(key)) {
            Programs.call(Command.words("ssh-keygen -q -t ed25519 -N %s -f %s", "", key));
        }
        Process process = at.command(Command.words(
                        "/usr/sbin/sshd -D -f /dev/null -p %s -h %s -o AuthorizedKeysFile=%s.pub -o PermitRootLogin=yes"
                                + " -o StrictModes=no -o PidFile=none -o MaxStartups=100 -o %s",
                        PORT, key, key, "Subsystem=sftp internal-sftp"))
                .redirectError(folder.resolve("sshd.log").toFile())
                .start();
        List<String> asking = from.command(Command.words("ssh -p %s " + CLIENT + " root@%s true", PORT, key, address))
                .command();
        Conditions.until(LIMIT, "sshd answers in the second node (its log: sshd.log)", () -> Command.of(asking)
                .run(LIMIT)
                .succeeded());
        return new SshServer(process, from, address, folder, key);
    }

    /** Copies directories into one of the server's, in one call of scp(1). */
    void copy(List<Path> directories, Path to) throws Exception {
        List<Command.RunningCommand> copies = new ArrayList<>();
        for (Path directory : directories) {
            List<String> words =
                    Command.words("scp -q -r -P %s " + CLIENT + " %s %s", PORT, key, directory, at(to) + "/");
            copies.add(Command.of(from.command(words).command()).start());
        }
        for (Command.RunningCommand copy : copies) {
            copy.await(COPY_LIMIT).requireOutput();
        }
    }

    /** Mounts a directory of the server's in a node. */
    void mount(TestNode node, Path served, Path at) throws IOException, InterruptedException {
        List<String> words = Command.words("sshfs -p %s -o direct_io " + CLIENT + " %s %s", PORT, key, at(served), at);
        // It continues in the background and keeps its output.
        Process mounting = node.command(words)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(folder.resolve("sshfs.log").toFile())
                .start();
        Programs.end(mounting, LIMIT.toSeconds());
        if (mounting.waitFor() != 0) {
            throw new IOException("sshfs: " + Files.readString(folder.resolve("sshfs.log")));
        }
    }

    private String at(Path directory) {
        return "root@" + address + ":" + directory;
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
