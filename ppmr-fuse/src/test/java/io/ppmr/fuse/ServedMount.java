package io.ppmr.fuse;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/** A service for tests: mounts a reference view at its argument, prints a line, serves until it is killed. */
final class ServedMount {
    static final String READY = "mounted";

    private ServedMount() {}

    /** {@code ServedMount MOUNTPOINT [hold]}; {@code hold}: it keeps a file of its own mount open, as it must not. */
    @SuppressWarnings("resource") // it is killed with the mount open: that is what it is for
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
