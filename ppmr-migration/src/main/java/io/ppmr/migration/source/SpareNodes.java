package io.ppmr.migration.source;

import io.ppmr.linux.Command;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.SecretWords;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The spare nodes that a migration may use, in their order. Immutable; any thread. {@code toString} describes their
 * origin in words.
 */
public sealed interface SpareNodes {

    /**
     * Returns the current addresses of their services. Names are looked up again. An unknown name is left out, with the
     * reason in the log.
     *
     * @return at least one
     * @throws IOException if none is left; names the reason and the remedy
     */
    List<InetSocketAddress> candidates() throws IOException, InterruptedException;

    /** Returns the addresses in their order, without those of unknown names. Throws if none is left. */
    private static List<InetSocketAddress> known(List<InetSocketAddress> addresses) throws IOException {
        List<InetSocketAddress> known = new ArrayList<>();
        for (InetSocketAddress address : addresses) {
            InetSocketAddress found = address.isUnresolved()
                    ? new InetSocketAddress(address.getHostString(), address.getPort())
                    : address;
            if (found.isUnresolved()) {
                log().warn("skipping spare node {}: its name is unknown on this node", HostPort.participant(address));
            } else {
                known.add(found);
            }
        }
        if (known.isEmpty()) {
            throw new IOException("the names of all spare nodes are unknown here: check the name service of this node");
        }
        return known;
    }

    private static Logger log() {
        return LoggerFactory.getLogger(SpareNodes.class);
    }

    /** Returns a single spare node with a known address. */
    static SpareNodes of(InetSocketAddress address) {
        return new Listed(List.of(address));
    }

    /** The spare nodes of a list. */
    record Listed(List<InetSocketAddress> addresses) implements SpareNodes {
        public Listed {
            addresses = List.copyOf(addresses);
        }

        @Override
        public List<InetSocketAddress> candidates() throws IOException {
            return known(addresses);
        }

        @Override
        public String toString() {
            return String.join(
                    ", ", addresses.stream().map(HostPort::participant).toList());
        }
    }

    /**
     * The spare nodes that a command of the site prints when a migration starts, one HOST:PORT per line. It runs
     * without a shell and must end with status 0.
     *
     * @param deadline time limit of the command
     */
    record Printed(List<String> command, Duration deadline) implements SpareNodes {
        private static final Pattern LINE = Pattern.compile("(?:\\[([^\\]]+)]|([^:\\s]+)):(\\d{1,5})");
        private static final int MAX_PORT = 65535;

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
                    log().warn("{} printed '{}', which is not HOST:PORT: skipped", this, line);
                }
            }
            if (addresses.isEmpty()) {
                throw new IOException(this + " printed no spare node: nothing can be moved until it does");
            }
            return known(addresses);
        }

        private String output() throws IOException, InterruptedException {
            Command.CommandResult result = Command.of(command).withoutErrors().run(deadline);
            if (result.timedOut()) {
                throw new IOException(this + " has not ended within " + deadline + ": check it");
            }
            if (!result.succeeded()) {
                throw new IOException(this + " ended with status " + result.exitCode() + ": check it");
            }
            return result.output();
        }

        @Override
        public String toString() {
            return "the command " + SecretWords.hidden(command);
        }
    }
}
