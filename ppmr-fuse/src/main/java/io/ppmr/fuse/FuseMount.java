package io.ppmr.fuse;

import io.ppmr.linux.Command;
import io.ppmr.linux.LibC;
import io.ppmr.linux.MountEntry;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A mount that serves one {@link FilesystemView}: {@link #mount}, {@link #isMounted}, {@link #close}.
 *
 * <p>A daemon thread owns libfuse's side, and daemon workers serve the calls. Blocked calls cause more workers. {@code
 * mount} returns only after a child process looked up a unique name through the mount and the adapter received that
 * lookup. There is no shutdown hook: the service closes its mount. A killed service leaves a dead mount, which {@link
 * StaleMount} clears at the next start. The owner of the object closes it; any thread may call any method.
 *
 * <p>The options are those of mount.fuse(8). Requests have 128 KiB. There is no page cache, because a file may still
 * grow while it is read. Names and attributes are not cached, because they still change. The kernel checks permissions.
 */
public final class FuseMount implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(FuseMount.class);
    private static final int REQUEST_BYTES = 128 * 1024;
    /** Time for clients to finish during a close, before their calls are aborted. */
    private static final long GRACE_NS = TimeUnit.MILLISECONDS.toNanos(300);

    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long ONE_PROBE_NS = TimeUnit.SECONDS.toNanos(3);

    private final FilesystemView view;
    private final Path mountPoint;
    private final MountOptions options;
    private final String source;
    private final JnrFuseAdapter adapter;
    private final String probeName;
    private final CompletableFuture<Boolean> loopEnd = new CompletableFuture<>();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile boolean closing;
    private volatile boolean proved;
    private LibFuseSession session;
    private boolean closed;

    private FuseMount(FilesystemView view, Path mountPoint, MountOptions options, ServiceIdentity service) {
        this.view = view;
        this.mountPoint = mountPoint;
        this.options = options;
        this.source = service.asSource(options.fsname());
        this.probeName = ".ppmr-probe-" + service.pid() + "-" + System.nanoTime();
        this.adapter = new JnrFuseAdapter(view, probeName);
    }

    /**
     * Mounts, and proves that the mount responds. Before that it clears a dead service's mount at the same place.
     *
     * @throws MountException with the mount point, the cause and the remedy; nothing stays mounted then
     */
    public static FuseMount mount(FilesystemView view, Path mountPoint, MountOptions options)
            throws IOException, InterruptedException {
        Path ready = StaleMount.clear(mountPoint);
        FuseMount mount = new FuseMount(view, ready, options, ServiceIdentity.ofThisProcess());
        boolean mounted = false;
        try {
            mount.start();
            mount.prove();
            mounted = true;
        } finally {
            if (!mounted) {
                mount.closeAfterFailure();
            }
        }
        LOG.info("{}: mounted as {}", ready, mount.source);
        return mount;
    }

    /** Returns the mount point, absolute and without symbolic links. */
    public Path mountPoint() {
        return mountPoint;
    }

    /** Returns true if the mount is served, and false after it was closed, or unmounted by another program. */
    public boolean isMounted() {
        return proved && !closing && !loopEnd.isDone();
    }

    /**
     * Returns true if a child process can read the attributes of the mount's root. Blocks the caller, at most for
     * {@code timeoutNs}.
     */
    public boolean responds(long timeoutNs) throws InterruptedException {
        try {
            Command.CommandResult result = MountCalls.command(List.of("stat", "--", mountPoint.toString()))
                    .run(Duration.ofNanos(timeoutNs));
            if (!result.succeeded()) {
                LOG.warn("{} does not respond: {}", mountPoint, result.describe());
            }
            return result.succeeded();
        } catch (IOException e) {
            LOG.warn("{} cannot be checked: {}", mountPoint, e.getMessage());
            return false;
        }
    }

    /**
     * Returns the reason why the mount ended without {@link #close}; empty while it is served and after an ordinary
     * close.
     */
    public Optional<MountException> failure() {
        if (!ended.isCompletedExceptionally()) {
            return Optional.empty();
        }
        return Optional.of(
                ended.handle((none, failure) -> (MountException) failure).join());
    }

    /** Completes when the mount ended: normally after {@link #close}, and with {@link #failure} if it was lost. */
    public CompletionStage<Void> ended() {
        return ended.minimalCompletionStage();
    }

    /**
     * Closes the mount. It ends the view's waits ({@link FilesystemView#abort}), unmounts, aborts open files after a
     * short time, and waits for libfuse's threads. A second call does nothing.
     *
     * @throws MountException if it cannot be unmounted, or calls are still in the view at the deadline
     */
    @Override
    public synchronized void close() throws IOException {
        if (closed) {
            return;
        }
        closed = true;
        closing = true;
        try {
            closeOnce();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new MountException(
                    "closing " + mountPoint + " was interrupted; if it is still mounted, the next" + " start clears it",
                    e);
        }
    }

    private void closeOnce() throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + options.closeTimeoutNs();
        Optional<MountEntry> entry = ownEntry();
        try {
            view.abort();
        } finally {
            if (entry.isPresent()) {
                MountCalls.detach(mountPoint);
            }
        }
        boolean ended = entry.isEmpty() || awaitLoopEnd(Math.min(GRACE_NS, options.closeTimeoutNs()));
        // A connection that ended is not aborted, because another mount may have its number by now.
        if (!ended && session.isConnected()) {
            LOG.warn(
                    "{}: still in use, by open files or in another mount namespace; its connection is aborted",
                    mountPoint);
            abortConnection(entry.get());
        }
        if (!awaitLoopEnd(deadlineNs - System.nanoTime())) {
            throw new MountException(mountPoint + " is unmounted, but calls are still in the filesystem view after "
                    + TimeUnit.NANOSECONDS.toMillis(options.closeTimeoutNs())
                    + " ms, or its files are still open elsewhere: abort() of the view must end the calls; a thread"
                    + " dump shows where they wait");
        }
    }

    private void abortConnection(MountEntry entry) {
        try {
            MountCalls.abortConnection(entry.deviceMinor());
        } catch (IOException e) {
            // An ordinary user cannot mount fusectl. The mount then ends when the last file is closed.
            LOG.warn("{}: its connection cannot be aborted: {}", mountPoint, e.getMessage());
        }
    }

    private void start() {
        // Loads libfuse on this thread, so that the caller gets the exception for a missing library.
        session = new LibFuseSession(adapter);
        adapter.setCallers(session::caller);
        Thread thread = new Thread(this::serve, threadName());
        thread.setDaemon(true);
        thread.start();
    }

    private void serve() {
        boolean accepted = false;
        try {
            accepted = session.serve(threadName(), arguments());
        } catch (InterruptedException e) {
            // Only the end of the JVM interrupts this thread. The mount then ends with it.
            Thread.currentThread().interrupt();
        } finally {
            boolean isLost = proved && !closing;
            if (isLost) {
                ended.completeExceptionally(new MountException(mountPoint + " is no longer served: it was unmounted or"
                        + " its connection was aborted from outside; start the service again"));
            } else {
                ended.complete(null);
            }
            // Completed after the reason is set, so that a thread that sees the end of the loop also sees the reason.
            loopEnd.complete(accepted);
            if (isLost) {
                clearLoss();
            }
        }
    }

    private void clearLoss() {
        failure().ifPresent(loss -> LOG.error("{}", loss.getMessage()));
        view.abort();
        try {
            // After an abort the dead mount remains, and no other process clears it while this one runs.
            if (ownEntry().isPresent()) {
                MountCalls.detach(mountPoint);
            }
        } catch (IOException e) {
            LOG.error("{}: {}", mountPoint, e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private String[] arguments() {
        String settings = "big_writes,direct_io,use_ino,hard_remove,default_permissions"
                + ",max_write=" + REQUEST_BYTES + ",max_read=" + REQUEST_BYTES
                + ",attr_timeout=0,entry_timeout=0,negative_timeout=0"
                + ",subtype=ppmr,fsname=" + source
                + (options.allowOther() ? ",allow_other" : "");
        return new String[] {options.fsname(), "-f", "-o", settings, mountPoint.toString()};
    }

    /** Waits until the kernel lists the mount, then has child processes look up the unique name. */
    private void prove() throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + options.mountTimeoutNs();
        while (ownEntry().isEmpty()) {
            requireLoopRuns();
            if (System.nanoTime() - deadlineNs >= 0) {
                throw new MountException(mountPoint + " was not mounted within " + timeoutMs() + " ms; look for"
                        + " messages of libfuse or fusermount on standard error");
            }
            awaitLoopEnd(POLL_NS);
        }
        List<String> command =
                List.of("stat", "--", mountPoint.resolve(probeName).toString());
        while (!adapter.awaitProbe(0)) {
            requireLoopRuns();
            long remainingNs = deadlineNs - System.nanoTime();
            if (remainingNs <= 0) {
                throw new MountException(mountPoint + " was mounted but did not respond within " + timeoutMs()
                        + " ms; the machine may be overloaded, or 'stat' (coreutils) cannot be run");
            }
            Command.CommandResult result =
                    MountCalls.command(command).run(Duration.ofNanos(Math.min(remainingNs, ONE_PROBE_NS)));
            LOG.debug("probe of {}: {}", mountPoint, result.describe());
            if (!adapter.awaitProbe(0)) {
                awaitLoopEnd(POLL_NS);
            }
        }
        proved = true;
    }

    private void requireLoopRuns() throws MountException {
        if (loopEnd.isDone()) {
            throw new MountException("cannot mount at " + mountPoint + ": libfuse's own message is on standard"
                    + " error. "
                    + (LibC.isRoot()
                            ? "Does /dev/fuse exist, and is this container allowed to mount?"
                            : "Is fusermount installed, may this user open /dev/fuse (mode 0666), "
                                    + "does it own the mount point"
                                    + (options.allowOther()
                                            ? ", and does /etc/fuse.conf contain user_allow_other?"
                                            : "?")));
        }
    }

    private void closeAfterFailure() {
        try {
            close();
        } catch (IOException e) {
            LOG.warn("{}: clean-up after a failed mount: {}", mountPoint, e.getMessage());
        }
    }

    private String threadName() {
        return "ppmr-fuse " + mountPoint;
    }

    private long timeoutMs() {
        return TimeUnit.NANOSECONDS.toMillis(options.mountTimeoutNs());
    }

    private Optional<MountEntry> ownEntry() throws IOException {
        return MountEntry.at(mountPoint).stream()
                .filter(entry -> entry.source().equals(source))
                .findFirst();
    }

    private boolean awaitLoopEnd(long timeoutNs) throws InterruptedException {
        try {
            loopEnd.get(timeoutNs, TimeUnit.NANOSECONDS);
            return true;
        } catch (java.util.concurrent.TimeoutException e) {
            return false;
        } catch (java.util.concurrent.ExecutionException e) {
            throw new IllegalStateException("the future of the loop's end never fails", e);
        }
    }
}
