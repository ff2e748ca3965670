package io.ppmr.cli;

import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.TargetConfig;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.fuse.MemoryMount;
import io.ppmr.fuse.StaleMount;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code ppmr unmount}: removes the mounts of a service that was killed. */
@Command(
        name = "unmount",
        description = {
            "Removes the dead mounts of a service that was killed, and ends processes that hang on them.",
            "It does not touch a mount that is in use, or that is not ppmr's.",
            "Migrations that the service left are settled by its next start only."
        },
        mixinStandardHelpOptions = true)
final class UnmountCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private ConfigArgument config;

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        Path file = config.require();
        boolean any = false;
        for (Path named : ServiceConfig.mountsOf(file)) {
            Path mountPoint = named.toAbsolutePath();
            Path parent = mountPoint.getParent();
            // The mount point itself is not read: on a dead mount that fails, or hangs.
            if (parent != null && Files.isDirectory(parent, LinkOption.NOFOLLOW_LINKS)) {
                boolean cleared = StaleMount.detachDead(mountPoint);
                any |= cleared;
                out.println(mountPoint + (cleared ? " was a dead mount and is cleared" : " is not mounted"));
            }
        }
        // After the others, which fail if the service still runs.
        Optional<Path> staging = TargetConfig.stagingMountOf(file);
        if (staging.isPresent() && MemoryMount.detachDead(staging.get())) {
            any = true;
            out.println(staging.get() + " was the staging of a dead service and is cleared");
        }
        if (!any) {
            out.println("nothing to unmount");
        }
        return ExitCode.OK.number();
    }
}
