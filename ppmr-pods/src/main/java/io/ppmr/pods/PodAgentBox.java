package io.ppmr.pods;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.UserPath;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The directory in a pod's /tmp in which {@code pod-agent.sh} leaves words and receives answers. See that script for
 * the files.
 *
 * <p>The pod can put anything there, while the reader may be root. So the directory is reached by a descriptor of the
 * pod's own /tmp, no link in it is followed, and nothing is written but names. Sizes and numbers have limits. One
 * thread owns it, and closes it.
 */
final class PodAgentBox implements AutoCloseable {
    private static final Path NAME = Path.of(".ppmr-agent");
    private static final Pattern WORDS = Pattern.compile("([0-9]{1,10}-[0-9]{1,12})\\.words");
    private static final String TAKEN = ".taken";
    /** The longest words of a launcher. The kernel takes no longer argument than twice that. */
    static final int MOST_BYTES = 64 << 10;

    /** A launcher requests each host once. */
    private static final int MOST_FILES = 4096;

    private final String pod;
    private final int uid;
    private final ProcessIdentity init;
    private final ProcessTable processes;
    private final UserPath tmp;
    private final String sign =
            "alive-" + Long.toHexString(ThreadLocalRandom.current().nextLong()) + "-";
    private long signs;

    private PodAgentBox(PodStatus status, ProcessIdentity init, ProcessTable processes, UserPath tmp) {
        this.pod = status.name();
        this.uid = uidOf(status);
        this.init = init;
        this.processes = processes;
        this.tmp = tmp;
    }

    private static int uidOf(PodStatus status) {
        return Integer.parseUnsignedInt(status.name().substring(0, status.name().indexOf('/')));
    }

    /**
     * Opens the /tmp of a pod of this node.
     *
     * @param socket the control socket of the service that has the pod
     */
    static PodAgentBox of(String pod, Path socket) throws IOException, RequestException {
        PodStatus seen = show(pod, socket);
        ProcessTable processes = new ProcessTable();
        try {
            ProcessIdentity init = processes.of(seen.init());
            // The PID may have been another process's by now.
            PodStatus still = show(pod, socket);
            if (still.init() != seen.init() || still.startedAtMs() != seen.startedAtMs()) {
                throw new IOException("pod " + seen.name() + " was started again. Remedy: serve it again");
            }
            int uid = uidOf(seen);
            processes.requireOwner(init, new JobUser(uid, 0));
            if (processes.pidInside(init) != 1) {
                throw new IOException("PID " + seen.init() + " is not the init of pod " + seen.name()
                        + " here. Remedy: run this command on the pod's node, and in no container");
            }
            UserPath tmp = UserPath.hold(Path.of("/proc", Integer.toString(init.pid()), "root", "tmp"));
            if (!processes.isAlive(init)) {
                tmp.close();
                throw new IOException("pod " + seen.name() + " ended");
            }
            return new PodAgentBox(seen, init, processes, tmp);
        } catch (CheckpointException e) {
            throw new IOException("pod " + seen.name() + ": " + e.getMessage(), e);
        } catch (UncheckedIOException e) {
            throw new IOException(
                    "the files of pod " + seen.name() + " may not be read: " + e.getMessage()
                            + ". Remedy: run this command as the pod's user or as root",
                    e);
        }
    }

    private static PodStatus show(String pod, Path socket) throws IOException, RequestException {
        try (PodClient client = new PodClient(socket)) {
            PodStatus status = client.showPod(pod);
            if (status.init() == 0) {
                throw new IOException("pod " + status.name() + " ended already");
            }
            return status;
        }
    }

    /** Returns the full name of the pod. */
    String pod() {
        return pod;
    }

    /** Throws if the pod runs here no more. */
    void requireAlive() throws IOException {
        if (!processes.isAlive(init)) {
            throw new IOException("pod " + pod
                    + " ended, or was moved, before its launcher asked for all hosts."
                    + " Remedy: read the launcher's output");
        }
    }

    private Optional<UserPath> open() throws IOException {
        UserPath box;
        try {
            box = tmp.entry(NAME);
        } catch (NoSuchFileException none) {
            return Optional.empty();
        }
        if (!box.isDirectory() || box.owner().uid() != uid) {
            box.close();
            throw new IOException(
                    "/tmp/" + NAME + " in pod " + pod + " is not a directory of its user. Remedy: remove it");
        }
        return Optional.of(box);
    }

    /** Lists the words that were left and not taken yet. */
    List<String> waiting() throws IOException {
        List<String> waiting = new ArrayList<>();
        Optional<UserPath> opened = open();
        if (opened.isPresent()) {
            try (UserPath box = opened.get();
                    DirectoryStream<Path> entries = Files.newDirectoryStream(box.directory())) {
                int count = 0;
                for (Path entry : entries) {
                    count++;
                    if (count > MOST_FILES) {
                        throw new IOException("/tmp/" + NAME + " in pod " + pod + " has more than " + MOST_FILES
                                + " files. Remedy: remove them");
                    }
                    Matcher name = WORDS.matcher(entry.getFileName().toString());
                    if (name.matches()) {
                        waiting.add(name.group(1));
                    }
                }
            }
        }
        return waiting;
    }

    /**
     * Takes words, so that no other server carries them out.
     *
     * @return empty if another one was earlier
     * @throws IOException if what is there has no such form; it is taken then, too
     */
    Optional<List<String>> take(String name) throws IOException {
        Optional<UserPath> opened = open();
        if (opened.isEmpty()) {
            return Optional.empty();
        }
        try (UserPath box = opened.get()) {
            move(box, name + ".words", name + TAKEN);
            try (UserPath file = box.entry(Path.of(name + TAKEN))) {
                String text = file.read(MOST_BYTES);
                if (!text.endsWith("\0")) {
                    throw new IOException("the words of a launcher have no end. Remedy: use pod-agent.sh of this ppmr");
                }
                return Optional.of(List.of(text.substring(0, text.length() - 1).split("\0", -1)));
            }
        } catch (NoSuchFileException gone) {
            return Optional.empty();
        }
    }

    /** Answers words that were taken. They may be gone, if their launcher is. */
    void answer(String name, int exitCode) throws IOException {
        Optional<UserPath> opened = open();
        if (opened.isPresent()) {
            try (UserPath box = opened.get()) {
                move(box, name + TAKEN, name + ".done-" + exitCode);
            } catch (NoSuchFileException gone) {
                // The launcher no longer waits for the answer.
                return;
            }
        }
    }

    private static void move(UserPath box, String from, String to) throws IOException {
        Path directory = box.directory();
        Files.move(directory.resolve(from), directory.resolve(to), StandardCopyOption.ATOMIC_MOVE);
    }

    /** Shows launchers that the server lives. */
    void showAlive() throws IOException {
        Optional<UserPath> opened = open();
        if (opened.isPresent()) {
            try (UserPath box = opened.get()) {
                Path directory = box.directory();
                Files.createFile(directory.resolve(sign + (signs + 1)));
                Files.deleteIfExists(directory.resolve(sign + signs));
                signs++;
            } catch (NoSuchFileException gone) {
                // The pod has removed the directory.
                return;
            }
        }
    }

    /** Removes the last sign of life from the pod. */
    @Override
    public void close() throws IOException {
        try {
            Optional<UserPath> opened = signs == 0 ? Optional.empty() : open();
            if (opened.isPresent()) {
                try (UserPath box = opened.get()) {
                    Files.deleteIfExists(box.directory().resolve(sign + signs));
                }
            }
        } finally {
            tmp.close();
        }
    }
}
