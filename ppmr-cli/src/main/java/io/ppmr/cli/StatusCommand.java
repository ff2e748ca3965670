package io.ppmr.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.MigrationText;
import io.ppmr.linux.FileFailure;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.target.Arrival;
import io.ppmr.transaction.operator.OpenMigration;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr status}: what a service is doing. */
@JsonResult(ControlStatus.class)
@Command(
        name = "status",
        description = {
            "Shows if a service is idle, or how far its migration is.",
            "If this node has a source and a target, both are shown."
        },
        mixinStandardHelpOptions = true)
final class StatusCommand implements Callable<Integer> {
    /** An idle service sends nothing. */
    private static final Duration WATCH_LIMIT = Duration.ofDays(3650);

    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(500);

    @Spec
    private CommandSpec spec;

    @Mixin
    private SocketArgument socket;

    @Option(
            names = {"-w", "--watch"},
            description = "continue to show migrations until this command or the service ends; one service only")
    private boolean watch;

    @Option(names = "--json", description = "print one JSON object a line, with the fields of the control socket")
    private boolean json;

    @Override
    public Integer call() throws Exception {
        if (!watch) {
            return showAll(socket.all()).number();
        }
        Path path = socket.path();
        ControlStatus status = ask(path);
        show(status);
        if (status.arrivals() != null) {
            watchArrivals(path, status);
        }
        while (true) {
            watch(path);
            show(ask(path));
        }
    }

    /** Shows each service. A service that does not answer does not hide the others. */
    private ExitCode showAll(List<SocketArgument.AskedService> services) throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        ExitCode exit = ExitCode.OK;
        for (SocketArgument.AskedService service : services) {
            boolean headed = services.size() > 1;
            if (headed && !json) {
                out.println(service.title());
            }
            try {
                show(ask(service.socket()));
            } catch (IOException e) {
                if (!headed) {
                    throw e;
                }
                spec.commandLine().getErr().println("ppmr: " + FileFailure.describe(e));
                exit = ExitCode.FAILED;
            }
        }
        return exit;
    }

    private static ControlStatus ask(Path path) throws IOException {
        try (ControlClient client = new ControlClient(path)) {
            return client.status();
        }
    }

    private void watch(Path path) throws IOException {
        ProgressView view = OutputOptions.progress(spec);
        try (ControlClient client = new ControlClient(path)) {
            client.watch();
            MigrationReport report = client.awaitReport(WATCH_LIMIT, progress -> {
                if (json) {
                    print(Map.of("progress", progress));
                } else {
                    view.show(progress);
                }
            });
            view.endLine();
            if (json) {
                print(Map.of("report", report));
            } else {
                view.report(report);
            }
        }
    }

    /** Polls a target until this command or the service ends. */
    private void watchArrivals(Path path, ControlStatus first) throws IOException {
        ProgressView view = OutputOptions.progress(spec);
        ArrivalView arrivals = new ArrivalView();
        arrivals.lines(first.arrivals());
        ControlStatus last = first;
        while (true) {
            LockSupport.parkNanos(POLL_NS);
            ControlStatus now = ask(path);
            if (json && !now.equals(last)) {
                print(now);
            } else if (!json) {
                arrivals.lines(now.arrivals()).forEach(view::result);
            }
            last = now;
        }
    }

    private void show(ControlStatus status) {
        if (json) {
            print(status);
            return;
        }
        ProgressView view = OutputOptions.progress(spec);
        if (status.arrivals() != null && status.busy()) {
            new ArrivalView().lines(status.arrivals()).forEach(view::result);
        } else if (!status.busy()) {
            view.result((status.open().isEmpty() ? "idle" : "nothing moves now")
                    + (status.last() == null
                            ? ""
                            : "; the last migration " + status.last().migrationId() + ": "
                                    + MigrationText.of(status.last())));
        } else {
            String what = "busy: migration " + status.id() + (status.job() == null ? "" : " of job " + status.job());
            view.result(what + ", " + (status.progress() == null ? "starting" : MigrationText.of(status.progress())));
            if (status.progress() != null && !status.progress().pages().isEmpty()) {
                view.result("pages " + status.progress().pages());
            }
        }
        status.open().forEach(one -> view.result(text(one)));
        if (!status.waiting().isEmpty()) {
            view.result("to be moved after that: " + String.join(", ", status.waiting()));
        }
        if (status.transport() != null) {
            view.result("transport: " + status.transport());
        }
        if (status.health() != null) {
            view.result("health: " + status.health());
        }
    }

    /** Describes in one line a migration that an operator should know of. */
    static String text(OpenMigration one) {
        String held = one.heldRanks().isEmpty() ? "no rank is held here" : "held here: ranks " + one.heldRanks();
        return "open: migration " + one.id() + ", " + one.phase() + " since "
                + since(one.sinceEpochMs()) + ", " + held
                + (one.recovered() ? ", recovered after a restart of the service" : "") + "; "
                + (one.waitsFor() == null ? "it continues by itself" : one.waitsFor());
    }

    /** This is made on demand, because the formats of all locales need some time to load. */
    private static String since(long epochMs) {
        return DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss", Locale.ROOT)
                .withZone(ZoneId.systemDefault())
                .format(Instant.ofEpochMilli(epochMs));
    }

    private void print(Object value) {
        PrintWriter out = spec.commandLine().getOut();
        try {
            out.println(new ObjectMapper().writeValueAsString(value));
            out.flush();
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a record of plain values cannot be written", e);
        }
    }

    /** Describes the migrations that arrive at a target. It has rates from the second call on. It is for one thread. */
    static final class ArrivalView {
        private final Map<String, Arrival> before = new HashMap<>();

        /** Returns a line for each, and for each that ended since the last call. */
        List<String> lines(List<Arrival> now) {
            List<String> lines = new ArrayList<>(now.stream()
                    .map(arrival -> MigrationText.of(arrival, rate(arrival)))
                    .toList());
            Set<String> gone = new HashSet<>(before.keySet());
            before.clear();
            for (Arrival arrival : now) {
                gone.remove(arrival.id());
                before.put(arrival.id(), arrival);
            }
            gone.forEach(id -> lines.add(
                    "migration " + MigrationText.shortened(id) + " is over here; ppmr history shows its outcome"));
            return lines;
        }

        private double rate(Arrival arrival) {
            Arrival last = before.get(arrival.id());
            if (last == null || arrival.seconds() <= last.seconds()) {
                return arrival.bytesPerSecond();
            }
            return (arrival.arrivedBytes() - last.arrivedBytes()) / (arrival.seconds() - last.seconds());
        }
    }
}
