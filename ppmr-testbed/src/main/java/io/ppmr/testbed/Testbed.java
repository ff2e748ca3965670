package io.ppmr.testbed;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All resources of a run on this machine. These are a folder for all its files, including journals, and the nodes,
 * processes and mounts that were {@linkplain #add added}. They are removed in reverse order, and the folder last, when
 * this is closed or the JVM gets SIGTERM. The next JVM removes the remains of a killed JVM. The owner holds a lock on a
 * file in the folder, and the kernel releases the lock with the process. So a free lock shows that the owner is dead.
 * It is safe for any thread.
 */
public final class Testbed implements AutoCloseable {
    /** The property with the directory of the jobs' programs, set by the launcher. */
    private static final String PROGRAMS_PROPERTY = "ppmr.demo.dir";

    /** The property with the directory of sources of jobs' programs, in a package that has them. */
    private static final String SOURCES_PROPERTY = "ppmr.demo.sources";

    private static final Logger LOG = LoggerFactory.getLogger(Testbed.class);
    private static final String PREFIX = "ppmr-testbed-";
    private static final String LOCK = "lock";
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Set<PosixFilePermission> FOR_ALL = PosixFilePermissions.fromString("rwxr-xr-x");
    private static final Set<Testbed> OPEN = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> List.copyOf(OPEN).forEach(Testbed::closeEarly)));
    }

    private final Path folder;
    private final FileChannel lockFile;
    private final Deque<AutoCloseable> all = new ArrayDeque<>();
    private boolean closed;
    private volatile boolean early;

    private Testbed(Path folder, FileChannel lockFile) {
        this.folder = folder;
        this.lockFile = lockFile;
    }

    /**
     * Makes one, in the folder for temporary files (TMPDIR), and clears what killed runs have left there.
     *
     * @param purpose a part of the folder's name
     */
    public static synchronized Testbed create(String purpose) throws IOException {
        Path parent = Path.of(System.getenv().getOrDefault("TMPDIR", "/tmp"));
        clearAllLeft(parent);
        Path folder = Files.createTempDirectory(parent, PREFIX + purpose + "-");
        Files.setPosixFilePermissions(folder, FOR_ALL);
        // Locked before it has the name that others look for.
        Path made = folder.resolve("lock.new");
        FileChannel lockFile = FileChannel.open(made, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        lockFile.lock();
        Files.move(made, folder.resolve(LOCK));
        Testbed testbed = new Testbed(folder, lockFile);
        OPEN.add(testbed);
        return testbed;
    }

    /** Returns the folders of all that are open in this JVM. */
    static Set<Path> openFolders() {
        return OPEN.stream().map(testbed -> testbed.folder).collect(Collectors.toUnmodifiableSet());
    }

    private static void clearAllLeft(Path parent) throws IOException {
        try (DirectoryStream<Path> folders = Files.newDirectoryStream(parent, PREFIX + "*")) {
            for (Path left : folders) {
                try {
                    if (OPEN.stream().noneMatch(testbed -> testbed.folder.equals(left)) && isLeft(left)) {
                        clearLeft(left);
                    }
                } catch (Exception e) {
                    LOG.warn("{}, which a run that was killed has left, cannot be cleared: {}", left, e.getMessage());
                }
            }
        }
    }

    /** Returns true if its owner is dead. Only our files are changed, because any user may make folders beside them. */
    private static boolean isLeft(Path folder) throws IOException {
        Object us = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        Path file = folder.resolve(LOCK);
        if (!Files.getAttribute(folder, "unix:uid", LinkOption.NOFOLLOW_LINKS).equals(us)
                || !Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)
                || !Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
            return false;
        }
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE);
                FileLock lock = channel.tryLock()) {
            return lock != null;
        }
    }

    /** Also ends the processes whose commands contain a path in the folder. */
    private static void clearLeft(Path folder) throws Exception {
        for (ProcessHandle process : ProcessHandle.allProcesses().toList()) {
            if (commandLine(process).contains(folder + "/") && process.destroyForcibly()) {
                Conditions.until(LIMIT, "process " + process.pid() + " ends", () -> !process.isAlive());
            }
        }
        remove(folder);
    }

    private static String commandLine(ProcessHandle process) {
        try {
            return Files.readString(
                    Path.of("/proc", Long.toString(process.pid()), "cmdline"), StandardCharsets.ISO_8859_1);
        } catch (IOException e) {
            // It has just ended.
            return "";
        }
    }

    /** Unmounts what is mounted there, and deletes it. */
    private static void remove(Path folder) throws IOException, InterruptedException {
        for (String line : Files.readAllLines(Path.of("/proc/self/mountinfo"))) {
            String mounted = line.split(" ", -1)[4];
            if (mounted.startsWith(folder + "/")) {
                Command.of(List.of("umount", "--lazy", mounted)).run(LIMIT).requireOutput();
            }
        }
        // A link that a job creates during the removal cannot lead rm(1) out of the folder.
        Command.of(List.of("rm", "-rf", "--one-file-system", "--", folder.toString()))
                .run(LIMIT)
                .requireOutput();
    }

    public Path folder() {
        return folder;
    }

    /** A folder in it, for services. */
    public Path folder(String name) throws IOException {
        return Files.createDirectories(folder.resolve(name));
    }

    /** A new folder in it, for a job. */
    public Path folder(String name, JobUser user) throws IOException {
        Path made = Files.createDirectory(
                folder.resolve(name),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Files.setAttribute(made, "unix:gid", user.gid());
        Files.setAttribute(made, "unix:uid", user.uid());
        return made;
    }

    /** Finds the sources of the jobs' programs, of which some need a compiler that not every build has. */
    public static Path jobSources(String module) {
        String packaged = System.getProperty(SOURCES_PROPERTY);
        if (packaged != null) {
            return Path.of(packaged);
        }
        return Path.of(System.getProperty(PROGRAMS_PROPERTY, ""), "..", "..", "..", module, "src", "test", "c")
                .normalize();
    }

    /** Copies our helpers and the jobs' programs into it, because a job's user may have no access to the project. */
    public Path programs() throws IOException {
        Path bin = folder("bin");
        for (Path from : List.of(
                NativePrograms.fromSystemProperty().directory(), Path.of(System.getProperty(PROGRAMS_PROPERTY, "")))) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(from)) {
                for (Path file : files) {
                    Path copy = bin.resolve(file.getFileName());
                    Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
                    Files.setPosixFilePermissions(copy, FOR_ALL);
                }
            }
        }
        return bin;
    }

    /** Adds a resource. If everything is closed already, it closes the resource and throws. */
    public synchronized <T extends AutoCloseable> T add(T one) throws IOException {
        all.push(one);
        if (closed) {
            close();
            throw new IllegalStateException("closed early");
        }
        return one;
    }

    /** Closes one of them earlier than the rest. */
    public synchronized void close(AutoCloseable one) throws Exception {
        if (all.remove(one)) {
            one.close();
        }
    }

    /** While another process still works with it. */
    private void closeEarly() {
        early = true;
        try {
            close();
        } catch (IOException e) {
            LOG.error("{}", e.getMessage());
        }
    }

    /** Returns true if the JVM got a signal to end, so that failures are expected. */
    public boolean closedEarly() {
        return early;
    }

    /**
     * Ends everything and deletes the folder. It may be called again. Throws with all resources that could not be
     * ended.
     */
    @Override
    public synchronized void close() throws IOException {
        if (!closed) {
            all.addLast(() -> remove(folder));
            all.addLast(lockFile);
        }
        closed = true;
        List<String> left = new ArrayList<>();
        while (!all.isEmpty()) {
            try {
                all.pop().close();
            } catch (Exception e) {
                if (e instanceof InterruptedException) {
                    Thread.currentThread().interrupt();
                }
                left.add(String.valueOf(e.getMessage()));
            }
        }
        // This must not be earlier, because an ending JVM waits for the testbeds in this list.
        OPEN.remove(this);
        if (!left.isEmpty()) {
            throw new IOException("left behind: " + String.join("; ", left));
        }
    }
}
