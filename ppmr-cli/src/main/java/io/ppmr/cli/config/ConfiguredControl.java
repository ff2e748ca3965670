package io.ppmr.cli.config;

import io.ppmr.cli.control.ControlAccess;
import io.ppmr.cli.control.ControlSettings;
import io.ppmr.cli.warmup.WarmUp;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Reads what a file says of its service's control socket, and of the mount that a dead service may have left. */
public final class ConfiguredControl {
    private ConfiguredControl() {}

    /** The control socket that a file names, whatever else is wrong in it. */
    public static Path socketOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        boolean target = opened.has(TargetKeys.LISTEN.name());
        Path socket = opened.top(target ? ConfigRole.TARGET : ConfigRole.SOURCE)
                .get(target ? TargetKeys.CONTROL_SOCKET : SourceKeys.CONTROL_SOCKET);
        if (socket == null) {
            throw new ConfigException(opened.mistakes());
        }
        return socket;
    }

    /** Returns where the service of a file mounts, for its images and in its warm-up, whatever else is wrong in it. */
    public static List<Path> mountsOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        boolean target = opened.has(TargetKeys.LISTEN.name());
        ConfigFile.Section top = opened.top(target ? ConfigRole.TARGET : ConfigRole.SOURCE);
        Path mount = top.get(CommonKeys.MOUNT);
        Path work = top.get(CommonKeys.WORK_DIRECTORY);
        if (mount == null || work == null) {
            throw new ConfigException(opened.mistakes());
        }
        List<Path> mounts = new ArrayList<>(List.of(mount));
        mounts.addAll(WarmUp.mountPoints(target ? "target" : "source", work));
        return mounts;
    }

    /** The socket and who may use it; meaningless where the file has mistakes. */
    static ControlSettings read(ConfigFile file, ConfigFile.Section top, ConfigKey<Path> socketKey) {
        Path socket = top.get(socketKey);
        Object group = top.get(CommonKeys.CONTROL_GROUP);
        Boolean statusForAll = top.get(CommonKeys.STATUS_FOR_ALL);
        Optional<ControlAccess.ControlGroup> found = Optional.empty();
        if (group != null && file.here()) {
            try {
                found = Optional.of(new ControlAccess.ControlGroup(group.toString(), JobUsers.group(group)));
            } catch (BadValueException e) {
                top.bad(CommonKeys.CONTROL_GROUP, e.getMessage());
            }
        }
        return new ControlSettings(socket, new ControlAccess(found, Boolean.TRUE.equals(statusForAll)));
    }
}
