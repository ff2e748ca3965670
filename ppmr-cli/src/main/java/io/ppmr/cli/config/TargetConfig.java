package io.ppmr.cli.config;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.cli.control.ControlSettings;
import io.ppmr.doctor.PairCheck;
import io.ppmr.target.ReconnectHook;
import io.ppmr.target.TargetSettings;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.TransportWish;
import io.ppmr.transport.auth.PreSharedKey;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What a target's configuration file says, resolved. Immutable.
 *
 * @param settings the service's
 * @param control where {@code ppmr status} reaches it
 * @param metrics where its meters are shown, if they are
 * @param warmUpMigrations small migrations that it makes within itself before it is ready
 */
public record TargetConfig(
        TargetSettings settings, ControlSettings control, Optional<InetSocketAddress> metrics, int warmUpMigrations) {
    /** Reads a file on its node; throws with all its mistakes. */
    public static TargetConfig load(Path file) throws ConfigException {
        return read(new ConfigFile(file, true));
    }

    /**
     * What a file means; throws with all its mistakes.
     *
     * @param here whether this is its node; if not, its key and hosts are not looked for
     */
    public static ResolvedValues check(Path file, boolean here) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, here);
        read(opened);
        return opened.resolved();
    }

    /** Whether a file is a target's rather than a source's: one that listens. */
    public static boolean isTarget(Path file) throws ConfigException {
        return new ConfigFile(file, false).has(TargetKeys.LISTEN.name());
    }

    private static TargetConfig read(ConfigFile file) throws ConfigException {
        ConfigFile.Section top = file.top(ConfigRole.TARGET);
        InetSocketAddress listen = top.get(TargetKeys.LISTEN);
        Path mount = top.get(CommonKeys.MOUNT);
        Path work = top.get(CommonKeys.WORK_DIRECTORY);
        ControlSettings control = ConfiguredControl.read(file, top, TargetKeys.CONTROL_SOCKET);
        Duration silence = top.get(CommonKeys.SILENCE_LIMIT);
        TransportWish transport = top.get(CommonKeys.TRANSPORT);
        Integer warmUpMigrations = top.get(CommonKeys.WARM_UP_MIGRATIONS);
        Duration stall = top.get(TargetKeys.STALL_LIMIT);
        Duration restart = top.get(TargetKeys.RESTART_DEADLINE);
        Integer migrations = top.get(TargetKeys.MIGRATIONS);
        Path journal = top.get(TargetKeys.JOURNAL);
        Optional<Fence> fence = CommonValues.fence(file);
        Boolean allowRoot = top.get(TargetKeys.ALLOW_ROOT_JOBS);
        Set<String> ignored = ignoredChecks(top);
        PreSharedKey key = CommonValues.key(file, top);
        CommonValues.requireApart(top, mount, work);
        PoolGeometry pool = CommonValues.pool(file);

        ConfigFile.Section staging = file.section(TargetKeys.STAGING);
        Path directory = staging.get(TargetKeys.STAGING_DIRECTORY);
        Long limit = staging.get(TargetKeys.STAGING_LIMIT);
        Long heads = file.section(TargetKeys.HEADS).get(TargetKeys.HEADS_LIMIT);

        Checkpointers.Read tools = Checkpointers.read(file);
        if (!file.has(CheckpointerKeys.SECTION.name())) {
            file.mistake(
                    0, "checkpointers", "none is named, so nothing could be restored: write a [checkpointers.NAME]");
        }
        Map<String, ReconnectHook> reconnects = new LinkedHashMap<>();
        file.sections(TargetKeys.RECONNECT).forEach((name, section) -> {
            List<String> words = section.get(TargetKeys.RECONNECT_COMMAND);
            Duration deadline = section.get(TargetKeys.RECONNECT_DEADLINE);
            if (words != null && words.isEmpty()) {
                section.bad(TargetKeys.RECONNECT_COMMAND, "is empty: name the command, or take the section out");
            } else if (words != null && deadline != null) {
                reconnects.put(name, new ReconnectHook(words, deadline));
            }
        });
        Optional<InetSocketAddress> metrics = CommonValues.metrics(file);
        List<Mistake> mistakes = file.mistakes();
        if (!mistakes.isEmpty()) {
            throw new ConfigException(mistakes);
        }
        if (!file.here()) {
            return null;
        }
        TargetSettings settings = new TargetSettings(
                listen,
                mount,
                work,
                pool,
                new TransferSettings(directory, limit, heads, stall),
                key,
                List.copyOf(Checkpointers.create(tools.settings()).values()),
                restart,
                silence,
                migrations,
                journal,
                fence,
                allowRoot,
                transport,
                ignored,
                reconnects,
                tools.trustedUsers());
        return new TargetConfig(settings, control, metrics, warmUpMigrations);
    }

    private static Set<String> ignoredChecks(ConfigFile.Section top) {
        List<String> names = top.get(TargetKeys.IGNORED_CHECKS);
        if (names == null) {
            return null;
        }
        for (String name : names) {
            if (!PairCheck.IGNORABLE.contains(name)) {
                top.bad(
                        TargetKeys.IGNORED_CHECKS,
                        "'" + name + "' is no check that can be ignored: " + String.join(", ", PairCheck.IGNORABLE)
                                + " can");
            }
        }
        return Set.copyOf(names);
    }
}
