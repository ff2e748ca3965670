package io.ppmr.migration.source;

import io.ppmr.linux.Command;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.SecretWords;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
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
     * @param job the needs of the job
     * @return at least one
     * @throws IOException if none is left; names the reason and the remedy
     */
    List<InetSocketAddress> candidates(Needs job) throws IOException, InterruptedException;

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
        public List<InetSocketAddress> candidates(Needs job) throws IOException {
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
        public List<InetSocketAddress> candidates(Needs job) throws IOException, InterruptedException {
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

    /**
     * The needs of a job at the node where it continues.
     *
     * @param checkpointer the name of its checkpointer
     * @param memoryBytes the memory of its processes
     * @param stagingBytes the bytes that wait at the target until the image is complete
     */
    record Needs(String checkpointer, long memoryBytes, long stagingBytes) {}

    /** The zones in which a found spare node may be, seen from this node. */
    enum Zone {
        ANY,
        SAME,
        OTHER
    }

    /** Finds the spare nodes for a job when its migration starts. An optional part implements it. Any thread. */
    interface SpareFinder {
        /**
         * Returns nodes that have room for a job, the best first; empty if none has.
         *
         * @throws IOException if there is no answer; names the reason
         */
        List<InetSocketAddress> find(Needs job, Zone zone) throws IOException;
    }

    /**
     * The spare nodes that a cluster's controller chooses when a migration starts.
     *
     * @param zone the zones in which they may be
     * @param otherwise the spare nodes to use if no controller answers, or null for none
     */
    record Found(SpareFinder finder, Zone zone, Listed otherwise) implements SpareNodes {
        @Override
        public List<InetSocketAddress> candidates(Needs job) throws IOException {
            List<InetSocketAddress> found;
            try {
                found = finder.find(job, zone);
            } catch (IOException e) {
                if (otherwise == null) {
                    throw e;
                }
                log().warn("the spare nodes of the configuration are used: {}", e.getMessage());
                return otherwise.candidates(job);
            }
            if (found.isEmpty()) {
                throw new IOException("no node of the cluster has room for this job: " + job.checkpointer() + ", "
                        + (job.memoryBytes() >> 20) + " MiB, zone "
                        + zone.name().toLowerCase(Locale.ROOT)
                        + ". Remedy: ppmr nodes shows their memory, places and states; add a spare node, or name one"
                        + " with --to");
            }
            return found;
        }

        @Override
        public String toString() {
            return "the least loaded of the cluster"
                    + (otherwise == null ? "" : "; if no controller answers: " + otherwise);
        }
    }
}
