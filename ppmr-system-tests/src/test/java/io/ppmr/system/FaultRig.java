package io.ppmr.system;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.RequestException;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.TestNode;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A source and one or two targets, each a service on a node that can be lost. The test controls the network between
 * them ({@link Relay}), or a veth pair that can be set down. There is a folder for one job at a time.
 */
final class FaultRig implements AutoCloseable {
    static final String SOURCE = "source";
    static final String FIRST = "first";
    static final String SECOND = "second";
    static final int RANKS = 2;

    private static final String CABLE_SOURCE = "192.168.253.1";
    private static final String CABLE_TARGET = "192.168.253.2";
    private static final int CABLE_PORT = 7411;
    private static final int PIDS_APART = 5_000;

    private final Path directory;
    private final Shape shape;
    private final Map<String, TestNode> nodes = new LinkedHashMap<>();
    private final Map<String, Relay> relays = new LinkedHashMap<>();
    private final Map<String, Integer> ports = new HashMap<>();
    private final Map<String, ServiceProcess> services = new LinkedHashMap<>();

    /**
     * @param targets one or two
     * @param fencedBy the service with a fence command: {@link #SOURCE}, {@link #FIRST} for all targets, or empty for
     *     none. The command reports the result of {@link #proveOff}
     * @param cable whether source and target have networks of their own, joined by a cable, instead of relays
     */
    record Shape(int targets, String fencedBy, boolean cable) {
        boolean hasFence(String name) {
            return !fencedBy.isEmpty() && name.equals(SOURCE) == fencedBy.equals(SOURCE);
        }
    }

    FaultRig(Path directory, Shape shape) throws Exception {
        this.directory = directory;
        this.shape = shape;
        // The job's user reaches its folder through both.
        Files.setPosixFilePermissions(directory.getParent(), PosixFilePermissions.fromString("rwxr-xr-x"));
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        KeyFile.create(directory.resolve("key"));
        try {
            for (String name : names()) {
                nodes.put(name, TestNode.create(name, (nodes.size() + 1) * PIDS_APART, shape.cable()));
            }
            if (shape.cable()) {
                TestNode.connect(nodes.get(SOURCE), CABLE_SOURCE, nodes.get(FIRST), CABLE_TARGET);
            }
            for (String target : targets()) {
                ports.put(
                        target,
                        shape.cable() ? CABLE_PORT : Nodes.unusedAddress().getPort());
                if (!shape.cable()) {
                    relays.put(target, new Relay(ports.get(target)));
                }
                start(target);
            }
            start(SOURCE);
        } catch (Exception | AssertionError e) {
            close();
            throw e;
        }
    }

    private List<String> names() {
        List<String> names = new ArrayList<>(targets());
        names.add(SOURCE);
        return names;
    }

    List<String> targets() {
        return shape.targets() == 1 ? List.of(FIRST) : List.of(FIRST, SECOND);
    }

    Shape shape() {
        return shape;
    }

    /** The target that is notified last, and whose vote is the last one. */
    String last() {
        return shape.targets() == 1 ? FIRST : SECOND;
    }

    /** Returns the address by which the source reaches a target. */
    private String address(String target) {
        return shape.cable()
                ? CABLE_TARGET + ":" + CABLE_PORT
                : "127.0.0.1:" + relays.get(target).port();
    }

    /** Starts a service on its node, the first time or again. */
    void start(String name) throws Exception {
        ServiceProcess before = services.remove(name);
        if (before != null) {
            before.kill();
        }
        String common = """
                key_file = "%1$s/key"
                warm_up_migrations = 0
                control_socket = "%1$s/%2$s.sock"
                silence_limit = "4s"
                encryption = "%3$s"
                """.formatted(directory, name, shape.cable() ? "control" : "off");
        Path jobs = directory.resolve("job");
        String own = name.equals(SOURCE)
                ? """
                [target]
                addresses = [%s]
                connect_deadline = "2s"
                """.formatted(targets().stream()
                                .map(target -> '"' + address(target) + '"')
                                .collect(Collectors.joining(", ")))
                        + LedgerJob.toml(jobs, RANKS, "")
                : """
                unknown_users = true
                listen = "%s:%d"
                stall_limit = "60s"
                """.formatted(shape.cable() ? CABLE_TARGET : "127.0.0.1", ports.get(name));
        String fence = shape.hasFence(name) ? """
                [fence]
                command = ["sh", "-c", '%s']
                delay = "1s"
                deadline = "30s"
                """.formatted(fenceScript(name)) : "";
        services.put(
                name,
                ServiceProcess.startIn(
                        nodes.get(name),
                        name.equals(SOURCE) ? "source" : "target",
                        name,
                        directory,
                        common,
                        own,
                        fence,
                        LedgerJob.checkpointerToml(jobs)));
    }

    /** Queries the site, which is the test. It reports the query, and waits for the answer. */
    private String fenceScript(String name) {
        return ("touch %1$s/%2$s-asks; while [ ! -e %1$s/%2$s-off ];"
                        + " do [ ! -e %1$s/%2$s-not-off ] || exit 1; sleep 0.05; done")
                .formatted(directory, name);
    }

    /** Answers the fence command of a service. */
    void proveOff(String asking, boolean off) throws IOException {
        Files.createFile(directory.resolve(asking + (off ? "-off" : "-not-off")));
    }

    /** Waits until the fence command of a service has begun. */
    void awaitAsked(String asking) throws Exception {
        Conditions.until("the " + asking + " asks for the fence", () -> hasAsked(asking));
    }

    /** Returns true if the fence command of a service has begun. */
    boolean hasAsked(String asking) {
        return Files.exists(directory.resolve(asking + "-asks"));
    }

    ServiceProcess service(String name) {
        return services.get(name);
    }

    TestNode node(String name) {
        return nodes.get(name);
    }

    Relay relay(String target) {
        return relays.get(target);
    }

    /** A new job, whose ranks compute on the source's node. */
    LedgerJob job() throws Exception {
        LedgerJob.clear(directory.resolve("job"));
        return new LedgerJob(
                directory.resolve("job"), 0, RANKS, nodes.get(SOURCE).prefix());
    }

    /**
     * Moves the job, after the source ended all recovered migrations. Returns the migration's name.
     *
     * @param spread whether it moves to all targets; otherwise it moves to the first that accepts it
     */
    String migrate(boolean spread) throws Exception {
        List<String> to = spread ? targets().stream().map(this::address).toList() : List.of();
        String[] id = new String[1];
        Conditions.until("the source begins to move the job", () -> {
            try (ControlClient client = new ControlClient(socket())) {
                id[0] = client.start("ledger", to, Optional.empty(), false).id();
            } catch (RequestException e) {
                return false;
            }
            Conditions.until(
                    "it has begun or is broken off",
                    () -> has(SOURCE, id[0], TransactionRecord.Begun.class) || !isBusy());
            return has(SOURCE, id[0], TransactionRecord.Begun.class);
        });
        return id[0];
    }

    private Path socket() {
        return directory.resolve(SOURCE + ".sock");
    }

    private boolean isBusy() throws IOException {
        try (ControlClient client = new ControlClient(socket())) {
            return client.status().busy();
        }
    }

    /** Waits until a service's journal has such a record of a migration. */
    void awaitRecord(String name, String id, Class<? extends TransactionRecord> kind) throws Exception {
        Conditions.until(
                "the journal of the " + name + " has " + kind.getSimpleName() + " of migration " + id,
                () -> has(name, id, kind));
    }

    boolean has(String name, String id, Class<? extends TransactionRecord> kind) throws IOException {
        return count(name, id, kind) > 0;
    }

    long count(String name, String id, Class<? extends TransactionRecord> kind) throws IOException {
        return Nodes.journal(directory, name).stream()
                .filter(record -> record.migrationId().equals(id) && kind.isInstance(record))
                .count();
    }

    /** Waits until a service logged some words. */
    void awaitSaid(String name, String words) throws Exception {
        Conditions.until(
                "the " + name + " says '" + words + "'",
                () -> services.get(name).log().contains(words));
    }

    /** Returns true if every node and service lives and can accept the next job. */
    boolean isWell() {
        return services.size() == nodes.size()
                && nodes.values().stream().allMatch(TestNode::isAlive)
                && services.values().stream().allMatch(ServiceProcess::isAlive);
    }

    /** Returns the log of every service since its last start, for a case that failed. */
    String logs() throws IOException {
        StringBuilder all = new StringBuilder();
        for (String name : services.keySet()) {
            all.append("---- ")
                    .append(name)
                    .append('\n')
                    .append(services.get(name).log());
        }
        return all.toString();
    }

    @Override
    public void close() throws IOException {
        IOException failure = null;
        for (TestNode node : nodes.values()) {
            try {
                node.close();
            } catch (IOException e) {
                failure = e;
            }
        }
        for (ServiceProcess service : services.values()) {
            service.close();
        }
        for (Relay relay : relays.values()) {
            relay.close();
        }
        if (failure != null) {
            throw failure;
        }
    }
}
