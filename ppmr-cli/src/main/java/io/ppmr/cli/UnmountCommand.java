package io.ppmr.cli;

import io.ppmr.cli.config.ConfiguredControl;
import io.ppmr.fuse.StaleMount;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr unmount}: takes away the mount that a killed service has left, where none is started again. */
@Command(
        name = "unmount",
        description = {
            "Takes off the dead mount of a service that was killed, and ends what hangs on it. A mount that is served,"
                    + " or that is not ppmr's, is left alone, and said to be in use.",
            "What a killed service left of migrations is settled by its next start alone."
        },
        mixinStandardHelpOptions = true)
final class UnmountCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(names = "--config", required = true, paramLabel = "FILE", description = "the service's configuration")
    private Path config;

    @Override
    public Integer call() throws Exception {
        for (Path named : ConfiguredControl.mountsOf(config)) {
            Path mountPoint = named.toAbsolutePath();
            Path parent = mountPoint.getParent();
            // The mount point itself is not looked at: on a dead mount that fails, or hangs.
            if (parent != null && Files.isDirectory(parent, LinkOption.NOFOLLOW_LINKS)) {
                boolean cleared = StaleMount.detachDead(mountPoint);
                spec.commandLine()
                        .getOut()
                        .println(mountPoint + (cleared ? " was a dead mount and is cleared" : " is not mounted"));
            }
        }
        return ExitCode.OK.number();
    }
}
