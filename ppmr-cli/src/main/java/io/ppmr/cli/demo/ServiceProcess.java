package io.ppmr.cli.demo;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessIdentity;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A ppmr service in a node: a JVM of its own, its log in a file. Closed by its owner. */
public final class ServiceProcess implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ServiceProcess.class);
    private static final Duration END_LIMIT = Duration.ofSeconds(10);
    private static final int SIGTERM = 15;
    private static final int SIGKILL = 9;

    private final String name;
    private final Path log;
    private final NativePrograms programs;
    private final Process process;
    private final ProcessIdentity identity;
    private final CountDownLatch ready = new CountDownLatch(1);

    private ServiceProcess(String name, Path log, NativePrograms programs, Process process, ProcessIdentity identity) {
        this.name = name;
        this.log = log;
        this.programs = programs;
        this.process = process;
        this.identity = identity;
    }

    /**
     * Starts one.
     *
     * @param arguments of ppmr, such as {@code source --config FILE}
     * @param log its standard error
     * @param programs for the signals to it
     */
    public static ServiceProcess start(
            Node node, JavaCommand java, List<String> arguments, Path log, NativePrograms programs)
            throws IOException, InterruptedException {
        Process process =
                node.command(java.with(arguments)).redirectError(log.toFile()).start();
        process.getOutputStream().close();
        ServiceProcess service = new ServiceProcess(
                arguments.get(0) + " in " + node.name(), log, programs, process, Node.inside(process));
        Thread listener = new Thread(service::listen, "service-output");
        listener.setDaemon(true);
        listener.start();
        return service;
    }

    private void listen() {
        try (BufferedReader reader =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                if (line.equals("ready")) {
                    ready.countDown();
                }
            }
        } catch (IOException e) {
            LOG.debug("the output of {} has ended", name, e);
        }
    }

    /** Waits until it says so; throws with the end of its log if it does not. */
    public void awaitReady(Duration limit) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!ready.await(50, TimeUnit.MILLISECONDS)) {
            if (!process.isAlive()) {
                throw new IOException(
                        name + " has ended with status " + process.exitValue() + "; its log ends:\n" + logEnd(10));
            }
            if (System.nanoTime() - deadlineNs > 0) {
                throw new IOException(name + " is not ready after " + limit + "; its log ends:\n" + logEnd(10));
            }
        }
    }

    public String name() {
        return name;
    }

    /** The service's process, as this process sees it. */
    public ProcessIdentity identity() {
        return identity;
    }

    public boolean isAlive() {
        return process.isAlive();
    }

    /** Its exit status, once it has ended. */
    public int exitValue() {
        return process.exitValue();
    }

    /** The last lines of its log. */
    public String logEnd(int lines) throws IOException {
        List<String> all = Files.readAllLines(log);
        return String.join("\n", all.subList(Math.max(0, all.size() - lines), all.size()));
    }

    /** Sends it a signal. */
    public void signal(int number) throws IOException {
        Process sender = new ProcessBuilder(
                        programs.signal().toString(),
                        Integer.toString(number),
                        Integer.toString(identity.pid()),
                        Long.toString(identity.startTimeTicks()),
                        Long.toString(identity.pidNamespace()))
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        if (!waitFor(sender, END_LIMIT)) {
            sender.destroyForcibly();
            throw new IOException("signal " + number + " could not be sent to " + name + " within " + END_LIMIT);
        }
    }

    /** Tells it to end, and kills it where it does not; may be called twice. */
    @Override
    public void close() throws IOException {
        if (!process.isAlive()) {
            return;
        }
        signal(SIGTERM);
        if (!waitFor(process, END_LIMIT)) {
            signal(SIGKILL);
            if (!waitFor(process, END_LIMIT)) {
                throw new IOException(name + " does not end, PID " + identity.pid());
            }
        }
    }

    /** Whether it ends in time; an interrupt is kept for later, since this is mostly clean-up. */
    private static boolean waitFor(Process process, Duration limit) {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return process.waitFor(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
