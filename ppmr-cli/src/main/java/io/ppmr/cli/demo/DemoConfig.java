package io.ppmr.cli.demo;

import io.ppmr.cli.config.ConfiguredCheckpointers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;

/** The services' configuration files in a demonstration. */
final class DemoConfig {
    private static final int PORT = 7411;
    private static final Path MEMORY = Path.of("/dev/shm");

    private DemoConfig() {}

    static String source(Path folder, String checkpointer, Path bin, String target, DemoJob job) {
        return """
                mount = "%1$s/mount-a"
                work_directory = "%1$s/work-a"
                journal = "%1$s/journal-a"
                control_socket = "%1$s/a/%2$s.sock"
                key_file = "%1$s/key"
                [target]
                address = "%3$s:%4$d"
                %5$s
                [jobs.demo]
                user = %6$d
                group = %7$d
                checkpointer = "%2$s"
                ranks = %8$s
                """.formatted(
                        folder,
                        checkpointer,
                        target,
                        PORT,
                        checkpointer(checkpointer, bin),
                        job.user().uid(),
                        job.user().gid(),
                        job.ranksToml());
    }

    static String target(Path folder, String checkpointer, Path bin, String address, DemoJob job) throws IOException {
        // All of a retained image may have to wait: its memory, and what else CRIU writes.
        long stagingMib = job.totalBytes() / (1 << 20) * 5 / 4 + 256;
        boolean fits = Files.isDirectory(MEMORY) && Files.getFileStore(MEMORY).getUsableSpace() >> 20 > stagingMib;
        return """
                listen = "%3$s:%4$d"
                mount = "%1$s/mount-b"
                work_directory = "%1$s/work-b"
                journal = "%1$s/journal-b"
                control_socket = "%1$s/target.sock"
                key_file = "%1$s/key"
                allow_root_jobs = %6$b
                [staging]
                directory = "%7$s"
                limit = "%8$dm"
                %5$s
                """.formatted(
                        folder,
                        checkpointer,
                        address,
                        PORT,
                        checkpointer(checkpointer, bin)
                                + (checkpointer.equals("criu")
                                        ? "trusted_users = [" + job.user().uid() + "]"
                                        : ""),
                        job.user().uid() == 0,
                        fits ? MEMORY : folder,
                        stagingMib);
    }

    private static String checkpointer(String name, Path bin) {
        if (name.equals("criu")) {
            List<String> words = ConfiguredCheckpointers.criu(System.getenv());
            return """
                    [checkpointers.criu]
                    type = "criu"
                    program = [%s]
                    """.formatted(words.stream().map(word -> "\"" + word + "\"").collect(Collectors.joining(", ")));
        }
        return """
                [checkpointers.%1$s]
                type = "blcr"
                checkpoint_program = "%2$s/cr_checkpoint"
                restart_program = "%2$s/cr_restart"
                kernel_module = false
                """.formatted(name, bin);
    }
}
