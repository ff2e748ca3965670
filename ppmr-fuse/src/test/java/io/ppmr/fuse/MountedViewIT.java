package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;

/** The behavioural suite on a real mount of the reference view, driven by a separate process. */
class MountedViewIT extends FilesystemViewContract {
    @TempDir
    static Path mountPoint;

    private static final InMemoryView VIEW = new InMemoryView();
    private static FuseMount mount;
    private static ClientProcess client;
    private FilesystemDriver driver;

    @BeforeAll
    static void mountOnce() throws Exception {
        mount = FuseMount.mount(
                VIEW, mountPoint, MountOptions.named("ppmr-test").forAllUsers());
        client = new ClientProcess(mountPoint);
    }

    @AfterAll
    static void unmount() throws Exception {
        try {
            if (client != null) {
                client.close();
            }
        } finally {
            if (mount != null) {
                mount.close();
            }
        }
    }

    @Override
    protected FilesystemDriver openDriver() {
        driver = client.driver();
        return driver;
    }

    @Override
    protected void closeDriver() throws Exception {
        driver.close();
        for (String name : VIEW.list("/")) {
            VIEW.unlink("/" + name);
        }
        // The kernel sends RELEASE after close(2) returned.
        Await.until("all handles released", () -> VIEW.openHandles() == 0);
        assertEquals(0, VIEW.waitingCalls());
    }
}
