package io.ppmr.testbed;

import io.ppmr.linux.ProcStat;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The resources that a process has used since it began, from proc(5).
 *
 * @param cpuSeconds processor time of all its threads, in user space and kernel
 * @param commandsCpuSeconds the processor time of the children that it has waited for, and of their children
 * @param wakeUps the number of times that its living threads slept and were woken
 * @param ioCalls the number of its threads' calls of read(2), write(2) and similar, including ended threads
 * @param peakRssBytes the most memory that it has had resident
 */
public record ProcessFigures(
        double cpuSeconds, double commandsCpuSeconds, long wakeUps, long ioCalls, long peakRssBytes) {
    private static final double TICKS_A_SECOND = 100;
    private static final int USER_TIME = 11;

    /** Reads the figures. Throws if the process ended. */
    public static ProcessFigures of(long pid) throws IOException {
        Path process = Path.of("/proc", Long.toString(pid));
        String stat = Files.readString(process.resolve("stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
        double ticks = Long.parseLong(fields[USER_TIME]) + Long.parseLong(fields[USER_TIME + 1]);
        double ofCommands = Long.parseLong(fields[USER_TIME + 2]) + Long.parseLong(fields[USER_TIME + 3]);
        long wakeUps = 0;
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(process.resolve("task"))) {
            for (Path thread : threads) {
                wakeUps += field(thread.resolve("status"), "voluntary_ctxt_switches");
            }
        }
        return new ProcessFigures(
                ticks / TICKS_A_SECOND,
                ofCommands / TICKS_A_SECOND,
                wakeUps,
                field(process.resolve("io"), "syscr") + field(process.resolve("io"), "syscw"),
                field(process.resolve("status"), "VmHWM") * 1024);
    }

    private static long field(Path file, String name) throws IOException {
        try {
            return ProcStat.field(file, name)
                    .map(value -> Long.parseLong(value.replaceAll("\\D", "")))
                    .orElseThrow(() -> new IOException("no " + name + " in " + file));
        } catch (IOException e) {
            if (Files.exists(file)) {
                throw e;
            }
            // The thread just ended. Its file is gone, or reading it fails with ESRCH.
            return 0;
        }
    }
}
