package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.MemberCheck;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes the checks of a scan for state that CRIU does not write with its arguments. Immutable, for any thread.
 *
 * @param arguments further arguments of {@code criu dump}
 * @param pods whether the ranks are pods, whose address moves with them and whose processes are in no sandbox
 * @param sandboxes treatment of processes that may be in a Landlock sandbox
 * @param blocksNetworks whether CRIU can block the traffic of a network namespace of the job
 */
public record CriuChecks(List<String> arguments, boolean pods, SandboxRule sandboxes, boolean blocksNetworks) {
    private static final Logger LOG = LoggerFactory.getLogger(CriuChecks.class);
    private static final long MIB = 1 << 20;

    /** The default folders in which CRIU looks for plugins that write devices. */
    private static final List<Path> PLUGINS =
            List.of(Path.of("/usr/lib/criu"), Path.of("/usr/libexec/criu"), Path.of("/usr/local/lib/criu"));

    private static final Set<String> NAMES_PLUGINS = Set.of("--libdir", "-L", "--external");

    /** The treatment of a process that may be in a sandbox. */
    public enum SandboxRule {
        /** The process is refused. */
        REFUSE,
        /** The process is accepted with a warning in the log. */
        WARN,
        /** Sandboxes are not checked. */
        PASS
    }

    public CriuChecks {
        arguments = List.copyOf(arguments);
    }

    /**
     * Returns new checks for a scan before the ranks are stopped.
     *
     * @param deadlineNs end of the scan, on the monotonic clock
     */
    public List<MemberCheck> beforeStop(long deadlineNs) {
        List<MemberCheck> looks = new ArrayList<>(whileHeld(deadlineNs));
        looks.add(new DescriptorKinds(hasPlugins()));
        looks.add(new ExecutionModes());
        looks.add(new UnlinkedFiles(ghostLimit(), arguments.contains("--link-remap")));
        if (pods) {
            looks.add(new ThreadTimers());
        } else {
            looks.add(new BoundSockets());
            looks.add(new OwnNamespaces(hasArgument("--manage-cgroups"), blocksNetworks));
            if (sandboxes != SandboxRule.PASS) {
                looks.add(new Sandboxes(sandboxes == SandboxRule.REFUSE));
            }
        }
        return looks;
    }

    /** Returns new checks for state that CRIU leaves out without an error, for ranks that are held. */
    public List<MemberCheck> whileHeld(long deadlineNs) {
        return List.of(new GroupMemberships(deadlineNs));
    }

    private boolean hasArgument(String name) {
        return arguments.stream().anyMatch(argument -> argument.split("=", 2)[0].equals(name));
    }

    private boolean hasPlugins() {
        return arguments.stream().anyMatch(argument -> NAMES_PLUGINS.contains(argument.split("=", 2)[0]))
                || PLUGINS.stream().anyMatch(CriuChecks::isFilled);
    }

    private static boolean isFilled(Path folder) {
        if (!Files.isDirectory(folder)) {
            return false;
        }
        try (Stream<Path> plugins = Files.list(folder)) {
            return plugins.anyMatch(plugin -> plugin.toString().endsWith(".so"));
        } catch (IOException e) {
            LOG.debug("{} is left out: {}", folder, e.toString());
            return false;
        }
    }

    /** Returns the size of the largest unlinked file that CRIU writes: 1 MiB, unless an argument changes it. */
    private long ghostLimit() {
        long limit = MIB;
        for (int at = 0; at < arguments.size(); at++) {
            String argument = arguments.get(at);
            if (argument.startsWith("--ghost-limit=")) {
                limit = bytes(argument.substring(argument.indexOf('=') + 1)).orElse(limit);
            } else if (argument.equals("--ghost-limit") && at + 1 < arguments.size()) {
                limit = bytes(arguments.get(at + 1)).orElse(limit);
            }
        }
        return limit;
    }

    /** Parses a size as CRIU does: a number with K, M or G behind it. */
    static OptionalLong bytes(String text) {
        String size = text.strip().toUpperCase(Locale.ROOT);
        if (!size.matches("\\d{1,9}[KMG]?")) {
            return OptionalLong.empty();
        }
        int unit = "KMG".indexOf(size.charAt(size.length() - 1));
        long number = Long.parseLong(unit < 0 ? size : size.substring(0, size.length() - 1));
        return OptionalLong.of(number << (10 * (unit + 1)));
    }
}
