package io.ppmr.cli;

import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.part.ServicePart.Side;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** Finds the services that are installed on this node by their configurations and control sockets. It is immutable. */
final class InstalledServices {
    private final CliContext context;

    InstalledServices(CliContext context) {
        this.context = context;
    }

    /** The name of a side, as in {@code ppmr source}. */
    static String word(Side side) {
        return side.name().toLowerCase(Locale.ROOT);
    }

    /** Returns the place of the installed configuration of a side. */
    Path config(Side side) {
        return config(word(side));
    }

    /** Returns the place of the installed configuration of a role. */
    Path config(String role) {
        return context.root().resolve("etc/ppmr/" + role + ".toml");
    }

    /** Returns the control socket of a side in the installed configurations. */
    Path usualSocket(Side side) {
        return usualSocket(word(side));
    }

    /** Returns the control socket of a role in the installed configurations. */
    Path usualSocket(String role) {
        return context.root().resolve("run/ppmr/" + role + ".sock");
    }

    boolean isConfigured(Side side) {
        return Files.exists(config(side));
    }

    boolean isPresent(Side side) {
        return isPresent(word(side));
    }

    boolean isPresent(String role) {
        return Files.exists(config(role)) || Files.exists(usualSocket(role));
    }

    /**
     * Lists the sides that this node uses. The installation puts an example for each side there. So a side is in use if
     * its control socket exists, or if its file is not the example.
     */
    List<Side> inUse() {
        return Arrays.stream(Side.values()).filter(this::isInUse).toList();
    }

    /** Lists the sides in use. If there is none, lists the sides that have a file or a socket. */
    List<Side> present() {
        List<Side> used = inUse();
        return used.isEmpty()
                ? Arrays.stream(Side.values()).filter(this::isPresent).toList()
                : used;
    }

    private boolean isInUse(Side side) {
        return Files.exists(usualSocket(side))
                || (isConfigured(side) && (!isExample(side) || Files.exists(socketOrUsual(side))));
    }

    private boolean isExample(Side side) {
        String home = context.variable("PPMR_HOME");
        if (home == null) {
            return false;
        }
        try {
            return Files.mismatch(config(side), Path.of(home, "conf", word(side) + ".toml")) < 0;
        } catch (IOException e) {
            // A file that this user may not read was changed for this node.
            return false;
        }
    }

    private Path socketOrUsual(Side side) {
        try {
            return ServiceConfig.socketOf(config(side));
        } catch (ConfigException e) {
            return usualSocket(side);
        }
    }

    /**
     * Returns the control socket of an installed service. A user who cannot read its configuration gets the usual one.
     *
     * @throws ConfigException if the configuration can be read and is wrong
     */
    Path socket(Side side) throws ConfigException {
        return socket(word(side));
    }

    /** Returns the control socket of an installed service of a role, as {@link #socket(Side)} does. */
    Path socket(String role) throws ConfigException {
        return Files.isReadable(config(role)) ? ServiceConfig.socketOf(config(role)) : usualSocket(role);
    }
}
