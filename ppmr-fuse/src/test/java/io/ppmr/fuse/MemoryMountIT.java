package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.MountEntry;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests a service's own memory filesystem: no other process can use it, and it ends with the service. */
@Timeout(60)
class MemoryMountIT {
    private static final Duration LIMIT = Duration.ofSeconds(10L * Integer.getInteger("ppmr.patience", 1));
    private static final long SIZE_BYTES = 1 << 20;

    @TempDir
    private Path folder;

    private Path mountPoint;
    private Process service;

    @BeforeEach
    void openTheFolder() throws IOException {
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        mountPoint = folder.toRealPath().resolve(".staging");
    }

    @AfterEach
    void clear() throws Exception {
        if (service != null) {
            service.destroyForcibly();
        }
        while (!MountEntry.at(mountPoint).isEmpty()) {
            MountCalls.detach(mountPoint);
        }
    }

    private void startService() throws IOException {
        service = JavaProcess.start(ServedMemory.class, mountPoint.toString());
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(service.getInputStream(), StandardCharsets.UTF_8));
        assertEquals(ServedMemory.READY, lines.readLine());
    }

    private static Command.CommandResult asAUser(String script, Path path) throws IOException, InterruptedException {
        return Command.of(List.of(
                        "setpriv", "--reuid=8", "--regid=8", "--clear-groups", "sh", "-c", script, "sh", path + ""))
                .in(Path.of("/"))
                .run(LIMIT);
    }

    @Test
    void shouldHaveTheGivenSizeAndExcludeUsersWhenItIsMounted() throws Exception {
        try (MemoryMount mount = MemoryMount.mount(mountPoint, SIZE_BYTES)) {
            assertEquals(SIZE_BYTES, Files.getFileStore(mountPoint).getTotalSpace());
            assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(mountPoint)));
            String line = Files.readAllLines(Path.of("/proc/self/mountinfo")).stream()
                    .filter(one -> one.contains(" " + mountPoint + " "))
                    .findFirst()
                    .orElseThrow();
            assertTrue(line.contains("nosuid,nodev,noexec") && line.contains("tmpfs ppmr-staging@"), line);
            Files.writeString(mountPoint.resolve("of-the-service"), "x");
            for (String attempt : List.of("ls \"$1\"", "touch \"$1/x\"", "cat \"$1/of-the-service\"")) {
                Command.CommandResult result = asAUser(attempt, mountPoint);
                assertFalse(result.succeeded(), attempt + ": " + result.output());
                assertTrue(result.output().contains("ermission denied"), result.describe());
            }
            assertThrows(
                    IOException.class, () -> Files.write(mountPoint.resolve("large"), new byte[(int) SIZE_BYTES + 1]));
            mount.close();
            mount.close();
        }
        assertEquals(List.of(), MountEntry.at(mountPoint));
        assertFalse(Files.exists(mountPoint));
    }

    @Test
    void shouldReplaceTheMountOfAKilledService() throws Exception {
        startService();
        Files.writeString(mountPoint.resolve("left"), "x");
        service.destroyForcibly();
        assertTrue(service.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(1, MountEntry.at(mountPoint).size());
        try (MemoryMount mount = MemoryMount.mount(mountPoint, SIZE_BYTES)) {
            assertEquals(1, MountEntry.at(mountPoint).size(), mount::toString);
            assertFalse(Files.exists(mountPoint.resolve("left")));
        }
        assertFalse(MemoryMount.detachDead(mountPoint));
    }

    @Test
    void shouldRefuseByNameWhenTheServiceStillRunsOrTheMountIsAnothers() throws Exception {
        startService();
        MountException refused = assertThrows(MountException.class, () -> MemoryMount.detachDead(mountPoint));
        assertTrue(
                refused.getMessage().contains("served by the running process " + service.pid()), refused.getMessage());
        assertThrows(MountException.class, () -> MemoryMount.mount(mountPoint, SIZE_BYTES));
        assertEquals(1, MountEntry.at(mountPoint).size());
        service.destroyForcibly();
        assertTrue(service.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertTrue(MemoryMount.detachDead(mountPoint));
        MountCalls.mountKernelFilesystem("tmpfs", mountPoint);
        refused = assertThrows(MountException.class, () -> MemoryMount.mount(mountPoint, SIZE_BYTES));
        assertTrue(refused.getMessage().contains("unmount it or name another"), refused.getMessage());
        assertEquals(1, MountEntry.at(mountPoint).size());
    }

    @Test
    void shouldFailByNameWhenItMayNotMount() throws Exception {
        List<String> words = new ArrayList<>(List.of("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"));
        words.addAll(JavaProcess.command(ServedMemory.class, mountPoint.toString()));
        Command.CommandResult tried = Command.of(words).run(LIMIT);
        assertFalse(tried.succeeded());
        assertTrue(tried.output().contains("cannot mount tmpfs at " + mountPoint), tried.describe());
        assertEquals(List.of(), MountEntry.at(mountPoint));
    }
}
