package io.ppmr.source;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.LoggerFactory;

/**
 * The spare nodes that a migration may go to, in the order in which they are asked. Immutable; any thread. {@code
 * toString} says in words where they come from.
 */
public sealed interface SpareNodes {

    /**
     * Where their services listen, as it is now; names are looked up anew, and one that is not known is left out, with
     * the reason in the log.
     *
     * @return at least one
     * @throws IOException if none is left; names the reason and the remedy
     */
    List<InetSocketAddress> candidates() throws IOException, InterruptedException;

    /** A single one whose address is known. */
    static SpareNodes of(InetSocketAddress address) {
        return new Listed(List.of(address));
    }

    /** Those of a list. */
    record Listed(List<InetSocketAddress> addresses) implements SpareNodes {
        public Listed {
            addresses = List.copyOf(addresses);
        }

        @Override
        public List<InetSocketAddress> candidates() throws IOException {
            return SpareNames.of(addresses);
        }

        @Override
        public String toString() {
            return String.join(", ", addresses.stream().map(SpareNames::name).toList());
        }
    }

    /**
     * Those that a command of the site prints when a migration starts, one HOST:PORT a line; it is run without a shell
     * and must end with status 0.
     *
     * @param deadline how long it may take
     */
    record Printed(List<String> command, Duration deadline) implements SpareNodes {
        private static final Pattern LINE = Pattern.compile("(?:\\[([^\\]]+)]|([^:\\s]+)):(\\d{1,5})");
        private static final int MAX_PORT = 65535;
        private static final int MOST_BYTES = 1 << 20;

        public Printed {
            command = List.copyOf(command);
        }

        @Override
        public List<InetSocketAddress> candidates() throws IOException, InterruptedException {
            List<InetSocketAddress> addresses = new ArrayList<>();
            for (String line : output().lines().map(String::strip).toList()) {
                Matcher matcher = LINE.matcher(line);
                if (matcher.matches() && Integer.parseInt(matcher.group(3)) <= MAX_PORT) {
                    String host = matcher.group(1) == null ? matcher.group(2) : matcher.group(1);
                    addresses.add(InetSocketAddress.createUnresolved(host, Integer.parseInt(matcher.group(3))));
                } else if (!line.isEmpty()) {
                    LoggerFactory.getLogger(SpareNodes.class)
                            .warn("{} prints '{}', which is not HOST:PORT: passed over", this, line);
                }
            }
            if (addresses.isEmpty()) {
                throw new IOException(this + " prints no spare node: nothing can be moved until it does");
            }
            return SpareNames.of(addresses);
        }

        private String output() throws IOException, InterruptedException {
            Process process = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            try {
                process.getOutputStream().close();
                CompletableFuture<byte[]> printed = CompletableFuture.supplyAsync(
                        () -> {
                            try {
                                return process.getInputStream().readNBytes(MOST_BYTES);
                            } catch (IOException e) {
                                throw new UncheckedIOException(e);
                            }
                        },
                        SpareNames::daemon);
                byte[] bytes = printed.get(deadline.toMillis(), TimeUnit.MILLISECONDS);
                if (!process.waitFor(deadline.toMillis(), TimeUnit.MILLISECONDS)) {
                    throw new TimeoutException();
                }
                if (process.exitValue() != 0) {
                    throw new IOException(this + " ends with status " + process.exitValue() + ": look at it");
                }
                return new String(bytes, StandardCharsets.UTF_8);
            } catch (TimeoutException e) {
                throw new IOException(this + " has not ended within " + deadline + ": look at it", e);
            } catch (ExecutionException e) {
                throw new IOException(this + " cannot be read: " + e.getCause(), e);
            } finally {
                process.descendants().forEach(ProcessHandle::destroyForcibly);
                process.destroyForcibly();
            }
        }

        @Override
        public String toString() {
            return "the command " + String.join(" ", command);
        }
    }
}
