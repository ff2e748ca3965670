package io.ppmr.system;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * A node that can be lost for good: PIDs and mounts of its own, and where a test wants it a network of its own; its
 * files are this machine's. When its init is killed the kernel ends everything in it at once. It ends with this process
 * at the latest, as its init waits on a pipe.
 */
final class LoneNode implements AutoCloseable {
    private static final long LIMIT_S = 30;
    private static final String LINK = "cable0";
    private static final String INIT = "mount --make-rshared / && echo \"$1\" >/proc/sys/kernel/ns_last_pid"
            + " && { [ -z \"$2\" ] || ip link set lo up; } && echo ready && read -r _";

    private final Process holder;
    private final ProcessHandle init;
    private final boolean ownNetwork;

    private LoneNode(Process holder, ProcessHandle init, boolean ownNetwork) {
        this.holder = holder;
        this.init = init;
        this.ownNetwork = ownNetwork;
    }

    /** @param firstPid about where its PIDs begin, so that those of two nodes are not the same */
    static LoneNode create(int firstPid, boolean ownNetwork) throws Exception {
        List<String> words =
                new ArrayList<>(List.of("setsid", "unshare", "--fork", "--kill-child", "--pid", "--mount"));
        if (ownNetwork) {
            words.add("--net");
        }
        words.addAll(List.of("--mount-proc", "bash", "-c", INIT, "ppmr-lone-node", String.valueOf(firstPid)));
        words.add(ownNetwork ? "network" : "");
        Process holder = new ProcessBuilder(words).redirectErrorStream(true).start();
        try {
            BufferedReader said =
                    new BufferedReader(new InputStreamReader(holder.getInputStream(), StandardCharsets.UTF_8));
            Conditions.until("a node says that it is ready", () -> said.ready() || !holder.isAlive());
            String line = said.readLine();
            if (!"ready".equals(line)) {
                throw new IOException("a node cannot be made: " + line + " (unshare(1), ip(8), bash; needs root)");
            }
            return new LoneNode(holder, childOf(holder).orElseThrow(), ownNetwork);
        } catch (Exception | AssertionError e) {
            holder.destroyForcibly();
            throw e;
        }
    }

    private static Optional<ProcessHandle> childOf(Process parent) {
        return parent.toHandle().children().findFirst();
    }

    /** What has to stand before a command's words to have it run in this node; see nsenter(1). */
    List<String> prefix() {
        List<String> words = new ArrayList<>(
                List.of("setsid", "nsenter", "--target", String.valueOf(init.pid()), "--pid", "--mount"));
        if (ownNetwork) {
            words.add("--net");
        }
        words.add("--");
        return words;
    }

    /** The process that a command started by {@link #prefix} runs as, as this process sees it. */
    static Optional<ProcessHandle> inside(Process started) {
        return childOf(started);
    }

    boolean isAlive() {
        return init.isAlive();
    }

    /** Kills its init, and by that everything in it; returns when nothing of it is left. */
    void kill() throws IOException {
        init.destroyForcibly();
        if (!hasEnded()) {
            throw new IOException("a node whose init " + init.pid() + " was killed has not ended within " + LIMIT_S
                    + " s: a process in it waits for a filesystem (state D)");
        }
    }

    private boolean hasEnded() {
        try {
            return holder.waitFor(LIMIT_S, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** Joins two nodes by a cable of their own (veth(4)); the addresses are of one network of 4. */
    static void connect(LoneNode a, String addressA, LoneNode b, String addressB) throws Exception {
        run(
                "ip",
                "link",
                "add",
                LINK,
                "netns",
                String.valueOf(a.init.pid()),
                "type",
                "veth",
                "peer",
                "name",
                LINK,
                "netns",
                String.valueOf(b.init.pid()));
        a.ip("address", "add", addressA + "/30", "dev", LINK);
        b.ip("address", "add", addressB + "/30", "dev", LINK);
        a.cable(true);
        b.cable(true);
    }

    /** Plugs its end of the cable in, or pulls it: what is on its way is lost, and nothing is reset. */
    void cable(boolean in) throws Exception {
        ip("link", "set", LINK, in ? "up" : "down");
    }

    private void ip(String... words) throws Exception {
        List<String> all = new ArrayList<>(prefix());
        all.add("ip");
        all.addAll(List.of(words));
        run(all.toArray(String[]::new));
    }

    private static void run(String... words) throws Exception {
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (!process.waitFor(LIMIT_S, TimeUnit.SECONDS) || process.exitValue() != 0) {
            process.destroyForcibly();
            throw new IOException(String.join(" ", words) + " fails: " + said);
        }
    }

    @Override
    public void close() throws IOException {
        kill();
        holder.getOutputStream().close();
    }
}
