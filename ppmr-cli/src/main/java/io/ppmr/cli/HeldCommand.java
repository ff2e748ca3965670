package io.ppmr.cli;

import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.source.JobCheckpoint;
import io.ppmr.migration.target.Arrival;
import io.ppmr.migration.target.JobRestarts;
import io.ppmr.transaction.journal.MappedJournal;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.ConnectException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code ppmr held}: the open migrations of this node. The packages run it before they remove or replace files. */
@Command(
        name = "held",
        description = {
            "Shows the migrations of this node that are not over, and the command that ends each.",
            "Also shows pods that a checkpoint, or a restart of a job over several nodes, holds.",
            "It reads the journals, so no service needs to run.",
            "It also queries a target that runs: a journal has a migration only when its copies are held.",
            "Exit code 4: there is one."
        },
        mixinStandardHelpOptions = true)
final class HeldCommand implements Callable<Integer> {
    private static final String OPEN = "OPEN";

    @Spec
    private CommandSpec spec;

    @Mixin
    private ConfigArgument config;

    /** A migration that is not over. */
    private record OpenOne(Path journal, Optional<Path> config, MigrationHistory migration) {}

    @Override
    public Integer call() throws IOException, ConfigException {
        List<OpenOne> open = new ArrayList<>();
        Set<Path> read = new LinkedHashSet<>();
        List<String> arriving = new ArrayList<>();
        Optional<Path> named = config.named();
        if (named.isPresent()) {
            collect(ServiceConfig.journalOf(named.get()), named, read, open);
            addArrivals(named.get(), open, arriving);
        } else {
            Path root = CliContext.of(spec).root();
            InstalledServices installed = new InstalledServices(CliContext.of(spec));
            for (Side side : Side.values()) {
                if (installed.isConfigured(side)) {
                    Path file = installed.config(side);
                    collect(ServiceConfig.journalOf(file), Optional.of(file), read, open);
                    addArrivals(file, open, arriving);
                }
            }
            // A service whose configuration was removed can have left a journal.
            for (Side side : Side.values()) {
                String usual = "var/lib/ppmr/" + InstalledServices.word(side) + "-journal";
                collect(root.resolve(usual), Optional.empty(), read, open);
            }
        }
        PrintWriter out = spec.commandLine().getOut();
        open.forEach(one -> print(one, out));
        arriving.forEach(out::println);
        boolean isFree = !printPods(read, out) && open.isEmpty() && arriving.isEmpty();
        if (isFree) {
            out.println("no migration is open");
        }
        return (isFree ? ExitCode.OK : ExitCode.REFUSED).number();
    }

    /** Adds what arrives at a service that runs, unless its journal has it already. */
    private static void addArrivals(Path config, List<OpenOne> open, List<String> arriving)
            throws IOException, ConfigException {
        Path socket = ServiceConfig.socketOf(config);
        if (!Files.exists(socket)) {
            return;
        }
        ControlStatus status;
        try (ControlClient client = new ControlClient(socket)) {
            status = client.status();
        } catch (IOException e) {
            if (e.getCause() instanceof ConnectException) {
                // Its service was killed. The journal has what it held.
                return;
            }
            throw e;
        }
        for (Arrival arrival : status.arrivals() == null ? List.<Arrival>of() : status.arrivals()) {
            boolean isOver = arrival.step() == Arrival.ArrivalStep.ROLLED_BACK;
            if (!isOver && open.stream().noneMatch(one -> one.migration().id().equals(arrival.id()))) {
                String job = arrival.job().isEmpty() ? "" : " of job " + arrival.job();
                arriving.add("migration " + arrival.id() + job + " arrives at the service of " + config
                        + "\n  -> let the service end it: ppmr status --config " + config
                        + "; or end it at its source: ppmr"
                        + " cancel " + arrival.id());
            }
        }
    }

    private static void collect(Path folder, Optional<Path> config, Set<Path> read, List<OpenOne> open)
            throws IOException {
        Path journal = folder.toAbsolutePath().normalize().resolve(MappedJournal.FILE_NAME);
        if (read.add(journal) && Files.exists(journal)) {
            MigrationHistory.each(journal, one -> {
                if (one.outcome().equals(OPEN)) {
                    open.add(new OpenOne(journal, config, one));
                }
            });
        }
    }

    /** Shows pods that a checkpoint or a restart of a job over several nodes holds. */
    private static boolean printPods(Set<Path> journals, PrintWriter out) throws IOException {
        boolean isHeld = false;
        for (Path journal : journals) {
            Path folder = journal.getParent();
            for (String job : JobCheckpoint.heldIn(folder)) {
                out.println("pods of job " + job + " are held for a checkpoint, by " + folder);
                out.println("  -> let its source continue them, or start it: systemctl start ppmr-source");
                isHeld = true;
            }
            for (String move : JobRestarts.releasingIn(folder)) {
                out.println("pods of " + move + " are being released, by " + folder);
                out.println("  -> let its target continue them, or start it: systemctl start ppmr-target");
                isHeld = true;
            }
        }
        return isHeld;
    }

    private static void print(OpenOne one, PrintWriter out) {
        MigrationHistory migration = one.migration();
        String job = migration.request().job().isEmpty()
                ? ""
                : " of job " + migration.request().job();
        String file = one.config().map(path -> " --config " + path).orElse("");
        out.println("migration " + migration.id() + job + " is open in " + one.journal());
        out.println("  -> let the service end it: ppmr status" + file + "; or decide it: ppmr resolve " + migration.id()
                + " --rollback" + file);
    }
}
