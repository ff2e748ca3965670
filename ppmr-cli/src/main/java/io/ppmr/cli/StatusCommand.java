package io.ppmr.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.MigrationText;
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
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr status}: what a service is doing. */
@Command(
        name = "status",
        description = "Shows whether a service is idle, or how far its migration is.",
        mixinStandardHelpOptions = true)
final class StatusCommand implements Callable<Integer> {
    /** An idle service says nothing for as long as nothing is moved. */
    private static final Duration WATCH_LIMIT = Duration.ofDays(3650);

    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(500);
    private static final DateTimeFormatter SINCE =
            DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss", Locale.ROOT).withZone(ZoneId.systemDefault());

    @Spec
    private CommandSpec spec;

    @ArgGroup(multiplicity = "1")
    private SocketArgument socket;

    @Option(
            names = "--watch",
            description =
                    "continue: show migrations as they come and go, until this command is ended, or the service ends")
    private boolean watch;

    @Option(names = "--json", description = "one JSON object a line, with the fields of the control socket")
    private boolean json;

    @Override
    public Integer call() throws Exception {
        Path path = socket.path();
        ControlStatus status = ask(path);
        show(status);
        if (watch && status.arrivals() != null) {
            watchArrivals(path, status);
        }
        while (watch) {
            watch(path);
            show(ask(path));
        }
        return ExitCode.OK.number();
    }

    private static ControlStatus ask(Path path) throws IOException {
        try (ControlClient client = new ControlClient(path)) {
            return client.status();
        }
    }

    private void watch(Path path) throws IOException {
        ProgressView view = new ProgressView(spec.commandLine().getOut(), ProgressView.onTerminal() && !json);
        try (ControlClient client = new ControlClient(path)) {
            client.watch();
            MigrationReport report = client.awaitReport(WATCH_LIMIT, progress -> {
                if (json) {
                    print(Map.of("progress", progress));
                } else {
                    view.show(progress);
                }
            });
            if (json) {
                print(Map.of("report", report));
            } else {
                view.report(report);
            }
        }
    }

    /** Asks a target again and again, until this command or the service ends. */
    private void watchArrivals(Path path, ControlStatus first) throws IOException {
        ProgressView view = new ProgressView(spec.commandLine().getOut(), false);
        ArrivalView arrivals = new ArrivalView();
        arrivals.lines(first.arrivals());
        ControlStatus last = first;
        while (true) {
            LockSupport.parkNanos(LOOK_NS);
            ControlStatus now = ask(path);
            if (json && !now.equals(last)) {
                print(now);
            } else if (!json) {
                arrivals.lines(now.arrivals()).forEach(view::line);
            }
            last = now;
        }
    }

    private void show(ControlStatus status) {
        if (json) {
            print(status);
            return;
        }
        ProgressView view = new ProgressView(spec.commandLine().getOut(), false);
        if (status.arrivals() != null && status.busy()) {
            new ArrivalView().lines(status.arrivals()).forEach(view::line);
        } else if (!status.busy()) {
            view.line((status.open().isEmpty() ? "idle" : "nothing moves now")
                    + (status.last() == null
                            ? ""
                            : "; the last migration " + status.last().migrationId() + ": "
                                    + MigrationText.of(status.last())));
        } else {
            String what = "busy: migration " + status.id() + (status.job() == null ? "" : " of job " + status.job());
            view.line(what + ", " + (status.progress() == null ? "starting" : MigrationText.of(status.progress())));
            if (status.progress() != null && !status.progress().pages().isEmpty()) {
                view.line("pages " + status.progress().pages());
            }
        }
        status.open().forEach(one -> view.line(text(one)));
        if (!status.waiting().isEmpty()) {
            view.line("to be moved after that: " + String.join(", ", status.waiting()));
        }
        if (status.transport() != null) {
            view.line("transport: " + status.transport());
        }
        if (status.health() != null) {
            view.line("health: " + status.health());
        }
    }

    /** A migration that an operator should know of, in one line. */
    static String text(OpenMigration one) {
        String held = one.heldRanks().isEmpty() ? "no rank is held here" : "held here: ranks " + one.heldRanks();
        return "open: migration " + one.id() + ", " + one.phase() + " since "
                + SINCE.format(Instant.ofEpochMilli(one.sinceEpochMs())) + ", " + held
                + (one.recovered() ? ", recovered after a restart of the service" : "") + "; "
                + (one.waitsFor() == null ? "it continues by itself" : one.waitsFor());
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

    /** The migrations that come to a target, in words; knows the rates once it has seen them twice. For one thread. */
    static final class ArrivalView {
        private final Map<String, Arrival> before = new HashMap<>();

        /** A line for each; one that is gone since the last look has a line, too. */
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
                    "migration " + MigrationText.shortened(id) + " is over here; ppmr history says how it ended"));
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
