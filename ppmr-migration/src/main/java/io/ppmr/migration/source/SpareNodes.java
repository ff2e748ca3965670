package io.ppmr.migration.source;

import io.ppmr.os.Command;
import io.ppmr.os.HostPort;
import io.ppmr.os.SecretWords;
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
 * The spare nodes that a migration may go to, in the order in which they are asked. Immutable; any thread. {@code
 * toString} says in words where they come from.
 */
public sealed interface SpareNodes {

    /**
     * Returns the current addresses of their services; names are looked up again, and one that is not known is left
     * out, with the reason in the log.
     *
     * @return at least one
     * @throws IOException if none is left; names the reason and the remedy
     */
    List<InetSocketAddress> candidates() throws IOException, InterruptedException;

    /** The addresses in their order, without those whose names are not known; throws if none is left. */
    private static List<InetSocketAddress> known(List<InetSocketAddress> addresses) throws IOException {
        List<InetSocketAddress> known = new ArrayList<>();
        for (InetSocketAddress address : addresses) {
            InetSocketAddress found = address.isUnresolved()
                    ? new InetSocketAddress(address.getHostString(), address.getPort())
                    : address;
            if (found.isUnresolved()) {
                log().warn(
                                "spare node {} is passed over: its name is not known on this node",
                                HostPort.participant(address));
            } else {
                known.add(found);
            }
        }
        if (known.isEmpty()) {
            throw new IOException("the name of no spare node is known here: look at the name service of this node");
        }
        return known;
    }

    private static Logger log() {
        return LoggerFactory.getLogger(SpareNodes.class);
    }

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
            return known(addresses);
        }

        @Override
        public String toString() {
            return String.join(
                    ", ", addresses.stream().map(HostPort::participant).toList());
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
                    log().warn("{} prints '{}', which is not HOST:PORT: passed over", this, line);
                }
            }
            if (addresses.isEmpty()) {
                throw new IOException(this + " prints no spare node: nothing can be moved until it does");
            }
            return known(addresses);
        }

        private String output() throws IOException, InterruptedException {
            Command.CommandResult result = Command.of(command).withoutErrors().run(deadline);
            if (result.timedOut()) {
                throw new IOException(this + " has not ended within " + deadline + ": look at it");
            }
            if (!result.succeeded()) {
                throw new IOException(this + " ends with status " + result.exitCode() + ": look at it");
            }
            return result.output();
        }

        @Override
        public String toString() {
            return "the command " + SecretWords.hidden(command);
        }
    }
}
