package io.ppmr.daemon.service;

import io.ppmr.daemon.log.UnixDatagramSocket;
import io.ppmr.linux.PrintableText;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The program that started this service and receives its state: systemd, by datagrams of sd_notify(3), or none. This
 * process itself sends the messages, because it is the main process of the unit. The launcher renames the variable of
 * the socket, so that no program of the service uses it. It is safe for any thread.
 */
public final class Supervisor {
    private static final Logger LOG = LoggerFactory.getLogger(Supervisor.class);
    private static final String SOCKET = "PPMR_NOTIFY_SOCKET";
    private static final Duration SEND_LIMIT = Duration.ofSeconds(5);
    private static final long US_A_SECOND = 1_000_000;

    private final Optional<Consumer<String>> listener;
    private final Optional<Duration> watchdog;

    /**
     * @param listener receives each message, or none if there is no receiver
     * @param watchdog the time without a keep-alive after which it kills the service, or none for no watchdog
     */
    Supervisor(Optional<Consumer<String>> listener, Optional<Duration> watchdog) {
        this.listener = listener;
        this.watchdog = watchdog;
    }

    /** Returns the supervisor of the environment. Throws if it cannot be reached. */
    public static Supervisor of(Map<String, String> environment) throws IOException {
        String address = environment.get(SOCKET);
        if (address == null) {
            return new Supervisor(Optional.empty(), Optional.empty());
        }
        String ours = Long.toString(ProcessHandle.current().pid());
        Optional<Duration> watchdog = Optional.ofNullable(environment.get("WATCHDOG_USEC"))
                .filter(microseconds -> microseconds.matches("[1-9]\\d{0,17}"))
                .filter(microseconds ->
                        environment.getOrDefault("WATCHDOG_PID", ours).equals(ours))
                .map(microseconds -> Duration.ofNanos(Long.parseLong(microseconds) * 1000));
        UnixDatagramSocket socket = UnixDatagramSocket.to(address, SEND_LIMIT);
        return new Supervisor(Optional.of(message -> sendTo(socket, message)), watchdog);
    }

    /** Returns true if systemd started this process for a unit. */
    static boolean isUnit(Map<String, String> environment) {
        ProcessHandle own = ProcessHandle.current();
        // systemd 248 and later set it. The launcher becomes this process by exec, so systemd is its parent.
        return Long.toString(own.pid()).equals(environment.get("SYSTEMD_EXEC_PID"))
                || (own.parent().map(ProcessHandle::pid).orElse(0L) == 1
                        && (environment.containsKey("INVOCATION_ID") || environment.containsKey(SOCKET)));
    }

    boolean listens() {
        return listener.isPresent();
    }

    /** Returns the time in which it expects a keep-alive. Empty without a watchdog. */
    Optional<Duration> watchdog() {
        return watchdog;
    }

    void ready(String status) {
        send("READY=1\nSTATUS=" + oneLine(status));
    }

    void status(String status) {
        send("STATUS=" + oneLine(status));
    }

    void stopping(String status) {
        send("STOPPING=1\nSTATUS=" + oneLine(status));
    }

    /** Requests more time to start or to stop, from now on. */
    void extend(Duration more) {
        send("EXTEND_TIMEOUT_USEC=" + more.toSeconds() * US_A_SECOND);
    }

    void alive() {
        send("WATCHDOG=1");
    }

    private static String oneLine(String text) {
        return PrintableText.line(text);
    }

    private synchronized void send(String message) {
        listener.ifPresent(receiver -> receiver.accept(message));
    }

    private static void sendTo(UnixDatagramSocket socket, String message) {
        if (socket.send(message.getBytes(StandardCharsets.UTF_8)) != UnixDatagramSocket.Sent.TAKEN) {
            LOG.warn("systemd did not accept '{}' within {}", message.replace('\n', ' '), SEND_LIMIT);
        }
    }
}
