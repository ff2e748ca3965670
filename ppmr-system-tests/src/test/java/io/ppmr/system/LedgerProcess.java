package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.testbed.Patience;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * The first process of a rank of a {@link LedgerJob}, and how processes of such a job are found.
 *
 * @param pid as its node sees it
 * @param child the process as a child of this one, or empty if it is in a node of its own
 */
record LedgerProcess(long pid, Optional<Process> child) {
    private static List<String> compute(Path script) {
        return List.of(
                "setpriv",
                "--reuid",
                String.valueOf(ReplayJob.USER.uid()),
                "--regid",
                String.valueOf(ReplayJob.USER.gid()),
                "--clear-groups",
                LedgerJob.REPLAY.toString(),
                script.toString());
    }

    /** Starts one as a child of this process, and writes its PID to a file. */
    static LedgerProcess startHere(Path script, Path pidFile) throws IOException {
        Process child = new ProcessBuilder(compute(script))
                .redirectErrorStream(true)
                .redirectOutput(new File(script + ".out"))
                .start();
        Files.writeString(pidFile, child.pid() + "\n");
        return new LedgerProcess(child.pid(), Optional.of(child));
    }

    /** As an orphan of the node's init: nsenter(1) would stop itself with a child that is stopped. */
    static LedgerProcess startIn(List<String> node, Path script, Path pidFile) throws Exception {
        List<String> words = new ArrayList<>(node);
        words.addAll(List.of(
                "sh",
                "-c",
                "file=$1; shift; setsid \"$@\" </dev/null >/dev/null 2>&1 &"
                        + " echo $! >\"$file.part\" && mv \"$file.part\" \"$file\"",
                "sh",
                pidFile.toString()));
        words.addAll(compute(script));
        Process starter = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(new File(script + ".out"))
                .start();
        assertTrue(starter.waitFor(Patience.of(60), TimeUnit.SECONDS), "a rank cannot be started in a node");
        return new LedgerProcess(Long.parseLong(Files.readString(pidFile).strip()), Optional.empty());
    }

    /** Returns the processes of the program image-replay whose scripts are in a directory. */
    static List<Long> of(Path directory) {
        return ProcessHandle.allProcesses()
                .map(ProcessHandle::pid)
                .filter(LedgerProcess::isReplay)
                .filter(pid -> commandLine(pid).contains(directory + "/"))
                .toList();
    }

    /** Returns the PID in the innermost namespace, or empty if the process ended. See proc(5). */
    static Optional<Long> inside(long pid) {
        try {
            return Files.readAllLines(Path.of("/proc", Long.toString(pid), "status")).stream()
                    .filter(line -> line.startsWith("NSpid:"))
                    .map(line -> Long.valueOf(line.substring(line.lastIndexOf('\t') + 1)))
                    .findFirst();
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    private static String commandLine(long pid) {
        try {
            return Files.readString(Path.of("/proc", Long.toString(pid), "cmdline"));
        } catch (IOException e) {
            return "";
        }
    }

    /** Returns true if a process exists and runs this program. */
    private static boolean isReplay(long pid) {
        try {
            return Files.readSymbolicLink(Path.of("/proc", Long.toString(pid), "exe"))
                    .endsWith(LedgerJob.REPLAY.getFileName());
        } catch (IOException e) {
            return false;
        }
    }
}
