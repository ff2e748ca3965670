package io.ppmr.cli.service;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whoever started this service and wants to hear of it: systemd, by datagrams of sd_notify(3), or nobody. The launcher
 * has {@code ppmr-notify} connect standard input to systemd's socket, since the JDK has no datagrams on Unix sockets;
 * each write to it is one message. Safe for any thread.
 */
public final class Supervisor {
    private static final Logger LOG = LoggerFactory.getLogger(Supervisor.class);
    private static final long US_A_SECOND = 1_000_000;

    private final Optional<OutputStream> socket;
    private final Optional<Duration> watchdog;

    /**
     * @param socket takes one message a write; none where nobody listens
     * @param watchdog how long it waits for a sign of life before it ends the service; none if it does not
     */
    Supervisor(Optional<OutputStream> socket, Optional<Duration> watchdog) {
        this.socket = socket;
        this.watchdog = watchdog;
    }

    /** The one that the environment speaks of. */
    public static Supervisor of(Map<String, String> environment) {
        if (!environment.getOrDefault("PPMR_NOTIFY", "").equals("stdin")) {
            return new Supervisor(Optional.empty(), Optional.empty());
        }
        String ours = Long.toString(ProcessHandle.current().pid());
        Optional<Duration> watchdog = Optional.ofNullable(environment.get("WATCHDOG_USEC"))
                .filter(microseconds -> microseconds.matches("[1-9]\\d{0,17}"))
                .filter(microseconds ->
                        environment.getOrDefault("WATCHDOG_PID", ours).equals(ours))
                .map(microseconds -> Duration.ofNanos(Long.parseLong(microseconds) * 1000));
        return new Supervisor(Optional.of(new FileOutputStream(FileDescriptor.in)), watchdog);
    }

    boolean listens() {
        return socket.isPresent();
    }

    /** How long it waits for a sign of life before it ends the service, if it does. */
    Optional<Duration> watchdog() {
        return watchdog;
    }

    void ready(String status) {
        say("READY=1\nSTATUS=" + oneLine(status));
    }

    void status(String status) {
        say("STATUS=" + oneLine(status));
    }

    void stopping(String status) {
        say("STOPPING=1\nSTATUS=" + oneLine(status));
    }

    /** Asks for more time to start or to stop, from now on. */
    void extend(Duration more) {
        say("EXTEND_TIMEOUT_USEC=" + more.toSeconds() * US_A_SECOND);
    }

    void alive() {
        say("WATCHDOG=1");
    }

    private static String oneLine(String text) {
        return text.replaceAll("\\R", " ");
    }

    private synchronized void say(String message) {
        if (socket.isEmpty()) {
            return;
        }
        try {
            socket.get().write(message.getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            LOG.warn("systemd could not be told '{}': {}", message.replace('\n', ' '), e.getMessage());
        }
    }
}
