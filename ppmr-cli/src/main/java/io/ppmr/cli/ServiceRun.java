package io.ppmr.cli;

import io.ppmr.cli.service.ProcessSignals;
import java.util.concurrent.CountDownLatch;

/** Keeps a service's process alive until it is told to end. */
final class ServiceRun {
    private final CountDownLatch end = new CountDownLatch(1);

    /** From now on SIGTERM and SIGINT end the wait instead of the JVM. */
    ServiceRun() {
        ProcessSignals.on("TERM", end::countDown);
        ProcessSignals.on("INT", end::countDown);
    }

    void awaitEnd() throws InterruptedException {
        end.await();
    }
}
