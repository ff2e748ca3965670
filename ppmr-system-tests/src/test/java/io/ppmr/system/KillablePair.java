package io.ppmr.system;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.linux.Command;
import io.ppmr.migration.RequestException;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * A source and a target as processes of their own. They can be frozen, killed and started again on the same journals.
 * There is a folder for one job at a time.
 */
final class KillablePair implements AutoCloseable {
    static final String SOURCE = "source";
    static final String TARGET = "target";
    static final int RANKS = 2;
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    private final Path directory;
    private final int port;
    private final String fence;
    private final String jobLines;
    private final boolean writesInProcess;
    private final Map<String, JavaCommand> releases = new HashMap<>();
    private final Map<String, ServiceProcess> services = new TreeMap<>();

    /** @param fence the target's table of that name, or nothing; "{port}" in it is the target's port */
    KillablePair(Path directory, String fence) throws Exception {
        this(directory, fence, "");
    }

    /** @param writesInProcess whether the job's processes write their images themselves */
    KillablePair(Path directory, boolean writesInProcess) throws Exception {
        this(directory, "", "", writesInProcess, Map.of());
    }

    /**
     * @param fence further tables of the target; "{port}" in them is the target's port
     * @param jobLines further lines of the job's table at the source, and tables after it
     */
    KillablePair(Path directory, String fence, String jobLines) throws Exception {
        this(directory, fence, jobLines, false, Map.of());
    }

    /** @param releases by its role, the command of a service that is of another release */
    KillablePair(Path directory, Map<String, JavaCommand> releases) throws Exception {
        this(directory, "", "", false, releases);
    }

    private KillablePair(
            Path directory, String fence, String jobLines, boolean writesInProcess, Map<String, JavaCommand> releases)
            throws Exception {
        this.releases.putAll(releases);
        this.writesInProcess = writesInProcess;
        this.jobLines = jobLines;
        this.directory = directory;
        this.fence = fence;
        port = Nodes.unusedAddress().getPort();
        // The job's user reaches its folder through both.
        Files.setPosixFilePermissions(directory.getParent(), PosixFilePermissions.fromString("rwxr-xr-x"));
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        KeyFile.create(directory.resolve("key"));
        try {
            start(TARGET);
            start(SOURCE);
        } catch (Exception | AssertionError e) {
            close();
            throw e;
        }
    }

    /** Starts a service, the first time or again. */
    void start(String role) throws Exception {
        ServiceProcess before = services.remove(role);
        if (before != null) {
            before.kill();
        }
        String common = """
                key_file = "%1$s/key"
                warm_up_migrations = 0
                control_socket = "%1$s/%2$s.sock"
                silence_limit = "60s"
                """.formatted(directory, role);
        Path jobs = directory.resolve("job");
        String own = role.equals(TARGET)
                ? """
                unknown_users = true
                listen = "127.0.0.1:%d"
                stall_limit = "60s"
                %s
                """.formatted(port, fence.replace("{port}", String.valueOf(port)))
                : """
                [target]
                address = "127.0.0.1:%d"
                """.formatted(port) + LedgerJob.toml(jobs, RANKS, jobLines);
        ServiceProcess service = ServiceProcess.begin(
                null,
                releases.getOrDefault(role, ServiceProcess.java()),
                role,
                directory,
                List.of(role),
                common,
                own,
                LedgerJob.checkpointerToml(jobs, writesInProcess));
        services.put(role, service);
        service.awaitReady(LIMIT);
    }

    /** Starts a service again, in another release. */
    void startIn(JavaCommand release, String role) throws Exception {
        releases.put(role, release);
        start(role);
    }

    ServiceProcess service(String role) {
        return services.get(role);
    }

    /** Returns what both services have of a migration in their work directories. */
    List<Path> workDirectories(String id) throws IOException {
        List<Path> found = new ArrayList<>();
        for (String role : List.of(SOURCE, TARGET)) {
            try (Stream<Path> all = Files.list(directory.resolve(role + "-work"))) {
                all.filter(path -> path.getFileName().toString().contains(id)).forEach(found::add);
            }
        }
        return found;
    }

    LedgerJob job() throws Exception {
        LedgerJob.clear(directory.resolve("job"));
        return new LedgerJob(directory.resolve("job"), RANKS);
    }

    /** Moves the job, after the source ended all recovered migrations. Returns the migration's name. */
    String migrate() throws Exception {
        String[] id = new String[1];
        Conditions.until("the source begins to move the job", () -> {
            try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
                id[0] = client.start("ledger", false).id();
            } catch (RequestException e) {
                return false;
            }
            Conditions.until("it has begun or is broken off", () -> hasBegun(id[0]) || !isBusy());
            return hasBegun(id[0]);
        });
        return id[0];
    }

    private boolean hasBegun(String id) throws IOException {
        return has(SOURCE, id, TransactionRecord.Begun.class::isInstance);
    }

    private boolean isBusy() throws IOException {
        try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
            return client.status().busy();
        }
    }

    /** Waits until a service's journal has such a record of a migration. */
    void awaitRecord(String role, String id, Class<? extends TransactionRecord> kind) throws Exception {
        Conditions.until(
                "the " + role + "'s journal has " + kind.getSimpleName(), () -> has(role, id, kind::isInstance));
    }

    /** Waits until the target received the message that the images of a migration's first attempt are whole. */
    void awaitWholeImages(String id) throws IOException, InterruptedException {
        for (int rank = 0; rank < RANKS; rank++) {
            Path never = directory.resolve("target-mount/" + id + ".1/rank-" + rank + "/" + LedgerJob.NEVER);
            Command.CommandResult opened =
                    Command.of(List.of("cat", never.toString())).run(LIMIT);
            if (!opened.output().contains("No such file")) {
                throw new IOException(opened.describe());
            }
        }
    }

    /** Moves the job until the target voted. The source is stopped before it receives the vote. */
    String voted(LedgerJob job) throws Exception {
        job.restarts(0, "read 1m", "eof", "touch " + job.mark("read-0"));
        job.restarts(1, "read 1m", "eof", "touch " + job.mark("read"), "await " + job.mark("go"));
        String id = migrate();
        job.awaitMark("read-0");
        job.awaitMark("read");
        awaitWholeImages(id);
        service(SOURCE).freeze();
        job.set("go");
        awaitRecord(TARGET, id, TransactionRecord.PreparedHere.class);
        return id;
    }

    private boolean has(String role, String id, Predicate<TransactionRecord> wanted) throws IOException {
        List<TransactionRecord> records = Nodes.journal(directory, role);
        return records.stream().anyMatch(record -> record.migrationId().equals(id) && wanted.test(record));
    }

    /** The target's name in every plan. */
    String targetName() {
        return "127.0.0.1:" + port;
    }

    /** Returns the control socket of a service. */
    Path socket(String role) {
        return directory.resolve(role + ".sock");
    }

    /** Returns true if both live and can accept the next job. */
    boolean isWell() {
        return services.size() == 2 && services.values().stream().allMatch(ServiceProcess::isAlive);
    }

    @Override
    public void close() throws IOException {
        for (ServiceProcess service : services.values()) {
            service.kill();
        }
        for (ServiceProcess service : services.values()) {
            service.close();
        }
        services.clear();
    }
}
