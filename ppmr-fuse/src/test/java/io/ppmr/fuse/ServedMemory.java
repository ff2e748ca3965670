package io.ppmr.fuse;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/** A service for tests: mounts memory at its argument, prints a line, and keeps it until it is killed. */
final class ServedMemory {
    static final String READY = "mounted";

    private ServedMemory() {}

    @SuppressWarnings("resource") // it is killed while mounted, which is its purpose
    public static void main(String[] arguments) throws Exception {
        MemoryMount.mount(Path.of(arguments[0]), 1 << 20);
        System.out.println(READY);
        new CountDownLatch(1).await();
    }
}
