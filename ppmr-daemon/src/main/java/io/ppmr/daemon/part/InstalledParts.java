package io.ppmr.daemon.part;

import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.part.ServicePart.Side;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;

/** The parts on the class path, in the order of their names. It is immutable. */
public final class InstalledParts {
    private static final List<ServicePart> ALL = ServiceLoader.load(ServicePart.class).stream()
            .map(ServiceLoader.Provider::get)
            .sorted(Comparator.comparing(ServicePart::name))
            .toList();

    private InstalledParts() {}

    /** Lists their names. */
    public static List<String> names() {
        return ALL.stream().map(ServicePart::name).toList();
    }

    /** Lists the records of the sections that they add to the files of a side. */
    public static List<Class<? extends Record>> sections(Side side) {
        List<Class<? extends Record>> all = new ArrayList<>();
        ALL.forEach(part -> all.addAll(part.sections(side)));
        return all;
    }

    /** Lists the roles of the services that they add. */
    public static List<ConfigRole> roles() {
        return ALL.stream().flatMap(part -> part.roles().stream()).toList();
    }

    /** Makes each part read its sections of a file. */
    public static ConfiguredParts read(ConfigFile file, Side side, ServicePart.Tools tools) {
        Map<String, ServicePart.Configured> configured = new LinkedHashMap<>();
        ALL.forEach(part -> configured.put(part.name(), part.read(file, side, tools)));
        return new ConfiguredParts(configured);
    }

    /** Creates the commands that they add to {@code ppmr}. */
    public static List<Object> commands() {
        return ALL.stream().flatMap(part -> part.commands().stream()).toList();
    }

    /** Makes each part register its meters of a service of a role. */
    public static void describe(MeterRegistry meters, String role) {
        ALL.forEach(part -> part.describe(meters, role));
    }
}
