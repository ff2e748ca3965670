package io.ppmr.fuse;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/** A service for tests: mounts a reference view at its argument, prints a line, serves until it is killed. */
final class ServedMount {
    static final String READY = "mounted";

    private ServedMount() {}

    /**
     * {@code ServedMount MOUNTPOINT [hold]}; {@code hold}: it violates the rule and keeps a file of its own mount open.
     */
    @SuppressWarnings("resource") // it is killed while mounted, which is its purpose
    public static void main(String[] arguments) throws Exception {
        Path mountPoint = Path.of(arguments[0]);
        FuseMount.mount(new InMemoryView(), mountPoint, MountOptions.named("ppmr-killed"));
        java.io.OutputStream own = null;
        if (arguments.length > 1) {
            own = new java.io.FileOutputStream(mountPoint.resolve("own").toFile());
            own.write(1);
        }
        System.out.println(READY);
        new CountDownLatch(1).await();
        System.out.println(own);
    }
}
