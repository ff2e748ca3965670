package io.ppmr.cli.control;

import java.nio.file.Path;

/**
 * A service's control socket, as configured.
 *
 * @param socket where it is
 * @param access who may use it
 */
public record ControlSettings(Path socket, ControlAccess access) {}
