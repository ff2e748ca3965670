package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ResolvedValues;
import io.ppmr.daemon.part.InstalledParts;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The roles of configuration files: source, target, and those of the optional parts. */
public final class ConfigRoles {
    private ConfigRoles() {}

    /** Returns all roles, source and target first. */
    public static List<ConfigRole> all() {
        List<ConfigRole> all = new ArrayList<>(List.of(SourceConfig.ROLE, TargetConfig.ROLE));
        all.addAll(InstalledParts.roles());
        return all;
    }

    /** Returns the role of a file, by the key that only files of this role have. */
    public static ConfigRole of(Path file) throws ConfigException {
        return of(new ConfigFile(file, false));
    }

    static ConfigRole of(ConfigFile file) {
        return InstalledParts.roles().stream()
                .filter(role -> file.contains(role.mark()))
                .findFirst()
                .orElse(file.contains(TargetConfig.ROLE.mark()) ? TargetConfig.ROLE : SourceConfig.ROLE);
    }

    /** Reads the top of a file of this role. Reports keys and sections that do not belong there. */
    public static <R extends Record> ConfigFile.FileSection<R> topOf(ConfigRole role, ConfigFile file, Class<R> keys) {
        Map<String, String> elsewhere = new HashMap<>();
        for (ConfigSection section : role.everything()) {
            String heading = section.heading();
            section.names().forEach(name -> elsewhere.put(name, "belongs in the section " + heading));
        }
        for (ConfigRole other : all()) {
            if (!other.equals(role)) {
                String text = "belongs in a " + other.word() + "'s file; this is a " + role.word() + "'s file ("
                        + sign(role) + "): remove it";
                other.topNames().forEach(name -> elsewhere.put(name, text));
            }
        }
        return file.top(keys, role.topNames(), elsewhere);
    }

    /** Describes how a file of a role differs from the others. */
    private static String sign(ConfigRole role) {
        return role.mark().isEmpty()
                ? "it has no \"" + TargetConfig.ROLE.mark() + "\""
                : "it has \"" + role.mark() + "\"";
    }

    /**
     * Throws if a file is clearly one of another role, so that its reader gets the one reason and not its
     * consequences.
     */
    public static void requireRole(ConfigRole role, ConfigFile file) throws ConfigException {
        ConfigRole other = of(file);
        boolean isOthers = !other.equals(role)
                && (!other.mark().isEmpty()
                        || other.topNames().stream()
                                .filter(name -> !role.topNames().contains(name))
                                .anyMatch(file::contains));
        if (isOthers) {
            file.mistake(
                    0,
                    "",
                    "is a " + other.word() + "'s file (" + sign(other) + "): start it with ppmr " + other.word()
                            + ", or name a " + role.word() + "'s file");
            file.requireGood();
        }
    }

    /**
     * Resolves a file of a role. Throws with all mistakes.
     *
     * @param here whether the file is for this node; if not, its key, users and hosts are not looked up
     */
    public static ResolvedValues check(ConfigRole role, Path file, boolean here) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, here);
        role.reader().read(opened);
        return opened.resolved();
    }
}
