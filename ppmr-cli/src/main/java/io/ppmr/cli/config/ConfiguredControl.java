package io.ppmr.cli.config;

import io.ppmr.cli.control.ControlAccess;
import io.ppmr.cli.control.ControlSettings;
import java.nio.file.Path;
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

    /** The mount that a file names, whatever else is wrong in it. */
    public static Path mountOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        boolean target = opened.has(TargetKeys.LISTEN.name());
        Path mount = opened.top(target ? ConfigRole.TARGET : ConfigRole.SOURCE).get(CommonKeys.MOUNT);
        if (mount == null) {
            throw new ConfigException(opened.mistakes());
        }
        return mount;
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
