package io.ppmr.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.daemon.control.StatusText;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.linux.FileFailure;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
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

    @Option(
            names = "--json",
            description = "print one JSON object a line; with --watch at a source also objects with progress or report")
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
        StatusText.ArrivalView arrivals = new StatusText.ArrivalView();
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
        StatusText.lines(status).forEach(view::result);
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
}
