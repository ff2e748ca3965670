package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.linux.Command;
import io.ppmr.linux.MountEntry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests waiting calls, closing, loss and sharing of a real mount. */
@Timeout(120)
class FuseMountIT {
    private static final int PATIENCE = Integer.getInteger("ppmr.patience", 1);
    private static final long LONG_S = 60L * PATIENCE;
    private static final Duration COMMAND_TIMEOUT = Duration.ofSeconds(LONG_S);
    private static final OpenFlags WRITE = new OpenFlags(1);

    private static final int ATTACKER = 20_002;
    private static final int OTHER = 20_003;
    /** Calls that begin at the same time. */
    private static final int FEW = 16;

    @TempDir
    Path mountPoint;

    @TempDir
    private Path folder;

    private final InMemoryView view = new InMemoryView();
    private FuseMount mount;
    private ClientProcess client;
    private FilesystemDriver files;

    @BeforeEach
    void mount() throws Exception {
        mount = FuseMount.mount(
                view, mountPoint, MountOptions.named("ppmr-test").forAllUsers());
        client = new ClientProcess(mountPoint);
        files = client.driver();
    }

    @AfterEach
    void unmount() throws Exception {
        try {
            client.close();
        } finally {
            mount.close();
        }
    }

    private void create(String path, int mode, int uid) throws ErrnoException {
        view.release(view.create(path, WRITE, mode, new CallingProcess(uid, uid, 1)));
    }

    private static CompletableFuture<byte[]> inBackground(java.util.concurrent.Callable<byte[]> call) {
        CompletableFuture<byte[]> result = new CompletableFuture<>();
        Thread thread = new Thread(
                () -> {
                    try {
                        result.complete(call.call());
                    } catch (Exception e) {
                        result.completeExceptionally(e);
                    }
                },
                "background call");
        thread.setDaemon(true);
        thread.start();
        return result;
    }

    private static String errnoOf(CompletableFuture<byte[]> call) {
        ExecutionException failed = assertThrows(ExecutionException.class, () -> call.get(LONG_S, TimeUnit.SECONDS));
        return ((FilesystemDriver.Failure) failed.getCause()).errno();
    }

    private Command.CommandResult as(int uid, String... command) throws Exception {
        List<String> whole = new java.util.ArrayList<>(List.of(
                "setpriv", "--reuid", Integer.toString(uid), "--regid", Integer.toString(uid), "--clear-groups"));
        whole.addAll(List.of(command));
        return MountCalls.command(whole).run(COMMAND_TIMEOUT);
    }

    @Test
    void shouldServeOthersInSameDirectoryWhenOpenIsBlocked() throws Exception {
        create("/waits", 0644, 0);
        create("/free", 0644, 0);
        view.hold("/waits", InMemoryView.Held.OPEN);
        CompletableFuture<byte[]> blocked = inBackground(() -> {
            int file = files.open("/waits", "r");
            return files.read(file, 10, 0);
        });
        Await.until("the open waits", () -> view.waitingCalls() == 1);
        assertEquals(0, files.read(files.open("/free", "r"), 10, 0).length);
        assertEquals(Set.of("waits", "free"), Set.copyOf(files.list("/")));
        files.close(files.open("/new", "wc"));
        assertFalse(blocked.isDone());
        view.unblock("/waits");
        assertArrayEquals(new byte[0], blocked.get(LONG_S, TimeUnit.SECONDS));
    }

    @Test
    void shouldServeOthersInSameDirectoryWhenReadsAreBlocked() throws Exception {
        create("/waits", 0644, 0);
        view.hold("/waits", InMemoryView.Held.READ);
        List<CompletableFuture<byte[]>> blocked = java.util.stream.IntStream.range(0, 20)
                .mapToObj(i -> inBackground(() -> files.read(files.open("/waits", "r"), 10, 0)))
                .toList();
        Await.until("all reads wait", () -> view.waitingCalls() == 20);
        int file = files.open("/other", "rwc");
        files.write(file, new byte[] {7}, 0);
        assertArrayEquals(new byte[] {7}, files.read(file, 10, 0));
        assertTrue(blocked.stream().noneMatch(CompletableFuture::isDone));
        view.unblock("/waits");
        for (CompletableFuture<byte[]> one : blocked) {
            assertArrayEquals(new byte[0], one.get(LONG_S, TimeUnit.SECONDS));
        }
    }

    /** The job's user may open missing files any number of times, and each open occupies a worker. */
    @Test
    void shouldServeRootAndOthersWhileOneUserHasTheMaximumOfWaitingCalls() throws Exception {
        create("/waits", 0644, ATTACKER);
        create("/free", 0644, 0);
        view.hold("/waits", InMemoryView.Held.OPEN);
        Path said = Files.createFile(folder.resolve("said"));
        int refused = 200;
        int opens = WorkerShares.OF_A_USER + refused;
        Process attack = new ProcessBuilder(
                        "setpriv",
                        "--reuid",
                        Integer.toString(ATTACKER),
                        "--regid",
                        Integer.toString(ATTACKER),
                        "--clear-groups",
                        "sh",
                        "-c",
                        "i=0; while [ $i -lt " + opens + " ]; do : <waits & i=$((i+1)); done; wait")
                .directory(mountPoint.toFile())
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        try {
            Await.until("all opens wait or are refused", () -> refusals(said) >= refused - FEW);
            assertTrue(view.waitingCalls() <= WorkerShares.OF_A_USER + FEW, view.waitingCalls() + " wait");
            assertEquals(0, as(0, "cat", mountPoint.resolve("free").toString()).exitCode());
            assertEquals(
                    0, as(OTHER, "cat", mountPoint.resolve("free").toString()).exitCode());
            assertEquals(
                    0, as(OTHER, "stat", mountPoint.resolve("waits").toString()).exitCode());
        } finally {
            view.unblock("/waits");
            attack.descendants().forEach(ProcessHandle::destroyForcibly);
            attack.destroyForcibly().waitFor();
        }
        // The waiting calls released their slots.
        Await.until("no call waits", () -> view.waitingCalls() == 0);
        assertEquals(
                0, as(ATTACKER, "cat", mountPoint.resolve("free").toString()).exitCode());
    }

    private static int refusals(Path said) throws IOException {
        // The lines of the shells may be mixed.
        return Files.readString(said).split("Resource temporarily unavailable", -1).length - 1;
    }

    @Test
    void shouldEndBlockedReadAndBeBoundedWhenClosed() throws Exception {
        create("/waits", 0644, 0);
        view.hold("/waits", InMemoryView.Held.READ);
        CompletableFuture<byte[]> blocked = inBackground(() -> files.read(files.open("/waits", "r"), 10, 0));
        Await.until("the read waits", () -> view.waitingCalls() == 1);
        long startNs = System.nanoTime();
        mount.close();
        assertTrue(System.nanoTime() - startNs < TimeUnit.SECONDS.toNanos(3L * PATIENCE));
        // The view ends the call with EIO. If its worker answers only after the grace time, the kernel ended it by
        // then.
        String errno = errnoOf(blocked);
        assertTrue(Set.of("EIO", "ECONNABORTED").contains(errno), errno);
        assertFalse(mount.isMounted());
        assertTrue(mount.failure().isEmpty());
        assertEquals(List.of(), MountEntry.at(mount.mountPoint()));
        mount.close();
    }

    @Test
    void shouldReportLossWhenUnmountedByAnotherProgram() throws Exception {
        assertTrue(mount.isMounted());
        MountCalls.detach(mount.mountPoint());
        Await.until("the loss is seen", () -> mount.failure().isPresent());
        assertFalse(mount.isMounted());
        assertTrue(mount.failure()
                .orElseThrow()
                .getMessage()
                .contains(mount.mountPoint().toString()));
    }

    @Test
    void shouldReportLossAndUnmountWhenConnectionIsAborted() throws Exception {
        assertTrue(MountCalls.abortConnection(
                MountEntry.at(mount.mountPoint()).get(0).deviceMinor()));
        Await.until("the loss is seen", () -> mount.failure().isPresent());
        Await.until(
                "the dead mount is off", () -> MountEntry.at(mount.mountPoint()).isEmpty());
    }

    /** The kernel assigns the number of an ended connection to the next mount. */
    @Test
    void shouldNotAbortTheNextMountWhenItsOwnConnectionEndedWithACallInTheView() throws Exception {
        InMemoryView stuck = new InMemoryView() {
            @Override
            public synchronized void abort() {
                // Its call remains blocked.
            }
        };
        stuck.release(stuck.create("/waits", WRITE, 0644, new CallingProcess(0, 0, 1)));
        stuck.hold("/waits", InMemoryView.Held.OPEN);
        FuseMount first =
                FuseMount.mount(stuck, Files.createDirectory(folder.resolve("first")), MountOptions.named("ppmr-test"));
        int number = MountEntry.at(first.mountPoint()).get(0).deviceMinor();
        Process caller =
                new ProcessBuilder("cat", first.mountPoint().resolve("waits").toString()).start();
        try {
            Await.until("the open waits", () -> stuck.waitingCalls() == 1);
            assertTrue(MountCalls.abortConnection(number));
            CompletableFuture<byte[]> closing = inBackground(() -> {
                first.close();
                return new byte[0];
            });
            Await.until("the first mount is off", () -> MountEntry.at(first.mountPoint())
                    .isEmpty());
            try (FuseMount next = FuseMount.mount(
                    new InMemoryView(),
                    Files.createDirectory(folder.resolve("next")),
                    MountOptions.named("ppmr-test"))) {
                assertThrows(ExecutionException.class, () -> closing.get(3 * LONG_S, TimeUnit.SECONDS));
                assertTrue(next.isMounted());
                assertTrue(next.responds(TimeUnit.SECONDS.toNanos(LONG_S)));
            }
        } finally {
            stuck.unblock("/waits");
            caller.destroyForcibly();
        }
    }

    @Test
    void shouldAdmitOnlyTheOwnerWhenDirectoryIsPrivate() throws Exception {
        view.makeDirectory("/rank-0", 0700, new CallingProcess(65534, 65534, 1));
        view.makeDirectory("/rank-1", 0700, new CallingProcess(12345, 12345, 1));
        create("/rank-0/image", 0600, 65534);
        create("/rank-1/image", 0644, 12345);
        String own = mountPoint.resolve("rank-0").toString();
        String other = mountPoint.resolve("rank-1").toString();
        assertTrue(as(65534, "cat", own + "/image").succeeded());
        assertTrue(as(65534, "dd", "if=/dev/zero", "of=" + own + "/made", "count=1")
                .succeeded());
        assertEquals(65534, view.attributes("/rank-0/made").uid());
        Command.CommandResult read = as(65534, "cat", other + "/image");
        assertFalse(read.succeeded());
        assertTrue(read.output().contains("Permission denied"), read.output());
        assertFalse(as(65534, "ls", other).succeeded());
        assertFalse(as(65534, "touch", other + "/intruder").succeeded());
        assertEquals(List.of("image"), view.list("/rank-1"));
    }

    @Test
    void shouldCopyTreeWithoutWarningsWhenCopyReadsAttributes() throws Exception {
        Path from = java.nio.file.Files.createTempDirectory("ppmr-copy");
        try {
            java.nio.file.Files.write(from.resolve("file"), new byte[300_000]);
            Command.CommandResult copied = MountCalls.command(List.of(
                            "cp",
                            "-a",
                            from.toString(),
                            mountPoint.resolve("copy").toString()))
                    .run(COMMAND_TIMEOUT);
            assertEquals("", copied.output());
            assertTrue(copied.succeeded(), copied.describe());
            assertEquals(300_000, view.attributes("/copy/file").sizeBytes());
        } finally {
            java.nio.file.Files.deleteIfExists(from.resolve("file"));
            java.nio.file.Files.delete(from);
        }
    }

    @Test
    void shouldRefuseHardLinkAndPipeWhenMade() throws Exception {
        create("/file", 0644, 0);
        String file = mountPoint.resolve("file").toString();
        assertTrue(MountCalls.command(List.of("ln", file, file + "2"))
                .run(COMMAND_TIMEOUT)
                .output()
                .contains("Operation not permitted"));
        assertTrue(MountCalls.command(List.of("mkfifo", file + "3"))
                .run(COMMAND_TIMEOUT)
                .output()
                .contains("Operation not permitted"));
        assertEquals(List.of("file"), view.list("/"));
    }

    @Test
    void shouldPunchHoleAndSetOnlyTheModificationTime() throws Exception {
        int file = files.open("/data", "wc");
        byte[] ones = new byte[8192];
        java.util.Arrays.fill(ones, (byte) 1);
        files.write(file, ones, 0);
        files.close(file);
        String path = mountPoint.resolve("data").toString();
        assertTrue(MountCalls.command(List.of("fallocate", "-p", "-o", "4096", "-l", "4096", path))
                .run(COMMAND_TIMEOUT)
                .succeeded());
        int again = files.open("/data", "r");
        byte[] data = files.read(again, 10_000, 0);
        files.close(again);
        assertEquals(8192, data.length);
        assertEquals(1, data[4095]);
        assertEquals(0, data[4096]);
        assertTrue(MountCalls.command(List.of("touch", "-m", "-d", "@1000000000.5", path))
                .run(COMMAND_TIMEOUT)
                .succeeded());
        assertEquals(1_000_000_000_500_000_000L, view.attributes("/data").modifiedEpochNs());
    }
}
