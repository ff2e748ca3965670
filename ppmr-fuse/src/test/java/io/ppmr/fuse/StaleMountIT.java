package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.MountEntry;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** Tests that the mount of a dead service is cleared, and that anything else on a mount point is refused by name. */
@Timeout(120)
class StaleMountIT {
    private static final long LONG_S = 60L * Integer.getInteger("ppmr.patience", 1);

    // Removed explicitly, because a walk into a dead mount could hang.
    @TempDir(cleanup = CleanupMode.NEVER)
    Path folder;

    private Process service;

    @AfterEach
    void clear() throws Exception {
        if (service != null) {
            service.destroyForcibly();
        }
        Path mountPoint = folder.resolve("mnt").toRealPath();
        while (!MountEntry.at(mountPoint).isEmpty()) {
            MountEntry entry = MountEntry.at(mountPoint).get(0);
            if (entry.type().equals("fuse.ppmr")) {
                MountCalls.abortConnection(entry.deviceMinor());
            }
            MountCalls.detach(mountPoint);
        }
        try (var names = Files.walk(folder)) {
            for (Path name : names.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.delete(name);
            }
        }
    }

    private Path startService(String... how) throws IOException {
        Path mountPoint = Files.createDirectory(folder.resolve("mnt"));
        String[] arguments = new String[how.length + 1];
        arguments[0] = mountPoint.toString();
        System.arraycopy(how, 0, arguments, 1, how.length);
        service = JavaProcess.start(ServedMount.class, arguments);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(service.getInputStream(), StandardCharsets.UTF_8));
        assertEquals(ServedMount.READY, lines.readLine());
        return mountPoint;
    }

    private void mountAgain(Path mountPoint) throws Exception {
        try (FuseMount mount = FuseMount.mount(new InMemoryView(), mountPoint, MountOptions.named("ppmr-next"))) {
            assertTrue(mount.isMounted());
            assertEquals(1, MountEntry.at(mountPoint.toRealPath()).size());
            assertTrue(MountCalls.command(List.of("ls", mountPoint.toString()))
                    .run(Duration.ofSeconds(LONG_S))
                    .succeeded());
        }
        assertEquals(List.of(), MountEntry.at(mountPoint.toRealPath()));
    }

    @Test
    void shouldMountAgainWhenServiceWasKilled() throws Exception {
        Path mountPoint = startService();
        assertTrue(service.destroyForcibly().waitFor(LONG_S, TimeUnit.SECONDS), "a killed service must end");
        assertEquals(1, MountEntry.at(mountPoint.toRealPath()).size());
        mountAgain(mountPoint);
    }

    @Tag("soak")
    @Test
    void shouldMountAgainAndFreeServiceWhenItHangsOnItsOwnMount() throws Exception {
        Path mountPoint = startService("hold");
        service.destroyForcibly();
        ServiceIdentity killed = ServiceIdentity.parse(
                MountEntry.at(mountPoint.toRealPath()).get(0).source());
        Await.until("the killed service is seen as not serving", () -> !killed.isServing());
        assertFalse(service.waitFor(1, TimeUnit.SECONDS), "it does not hang, so this test shows nothing");
        mountAgain(mountPoint);
        assertTrue(service.waitFor(LONG_S, TimeUnit.SECONDS), "the killed service still hangs in the kernel");
    }

    @Test
    void shouldRefuseByNameWhenServiceStillRuns() throws Exception {
        Path mountPoint = startService();
        MountException refused = assertThrows(MountException.class, () -> mountAgain(mountPoint));
        assertTrue(
                refused.getMessage().contains("served by the running process " + service.pid()), refused.getMessage());
        assertEquals(1, MountEntry.at(mountPoint.toRealPath()).size());
    }

    @Test
    void shouldRefuseByNameWhenForeignFilesystemIsMounted() throws Exception {
        Path mountPoint = Files.createDirectory(folder.resolve("mnt"));
        MountCalls.mountKernelFilesystem("tmpfs", mountPoint);
        MountException refused = assertThrows(MountException.class, () -> mountAgain(mountPoint));
        assertTrue(refused.getMessage().contains("busy: tmpfs (type tmpfs)"), refused.getMessage());
        assertEquals("tmpfs", MountEntry.at(mountPoint.toRealPath()).get(0).type());
    }

    @Test
    void shouldRefuseByNameWhenMountPointIsNotEmpty() throws Exception {
        Path mountPoint = Files.createDirectory(folder.resolve("mnt"));
        Files.createFile(mountPoint.resolve("precious"));
        MountException refused = assertThrows(MountException.class, () -> mountAgain(mountPoint));
        assertTrue(refused.getMessage().contains("not empty (it contains precious)"), refused.getMessage());
    }

    @Test
    void shouldRefuseByNameWhenMountPointIsMissingOrNotADirectory() throws Exception {
        Files.createDirectory(folder.resolve("mnt"));
        Path file = Files.createFile(folder.resolve("file"));
        assertTrue(assertThrows(MountException.class, () -> mountAgain(file))
                .getMessage()
                .contains("is not a directory"));
        assertTrue(assertThrows(MountException.class, () -> mountAgain(folder.resolve("none")))
                .getMessage()
                .contains("does not exist; create it"));
        assertTrue(assertThrows(MountException.class, () -> mountAgain(folder.resolve("none/below")))
                .getMessage()
                .contains("and its parent directory do not exist"));
    }

    @Test
    void shouldMountWhenNameIsSymlinkOrContainsBlank() throws Exception {
        Path blank = Files.createDirectory(folder.resolve("mnt with blank"));
        Path link = Files.createSymbolicLink(folder.resolve("mnt"), blank);
        mountAgain(link);
        mountAgain(blank);
    }
}
