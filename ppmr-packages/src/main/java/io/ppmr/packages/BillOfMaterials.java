package io.ppmr.packages;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.TreeMap;

/**
 * The bill of materials of the packages: that of the CycloneDX plugin for the jars, with the native programs, and the C
 * library that is linked into them. It is used by one thread.
 */
final class BillOfMaterials {
    private static final String LICENCES = """
            What the package contains, and under which licence.
            Each jar in /usr/lib/ppmr has the texts of its licence. The bill of materials is ppmr.cdx.json.

            """;

    private final ObjectMapper mapper = new ObjectMapper();
    private final ObjectNode bill;

    private BillOfMaterials(JsonNode bill) throws IOException {
        if (!(bill instanceof ObjectNode object) || !(bill.get("components") instanceof ArrayNode)) {
            throw new IOException("the CycloneDX plugin wrote a bill without components. Remedy: ./ppmr package again");
        }
        this.bill = object;
    }

    /** Reads the plugin's bill. */
    static BillOfMaterials read(Path file) throws IOException {
        return new BillOfMaterials(new ObjectMapper().readTree(file.toFile()));
    }

    /** Makes it the empty bill of another package of the same build. */
    BillOfMaterials withoutComponents(String name, String version) {
        bill.remove(List.of("serialNumber", "dependencies"));
        bill.putArray("components");
        if (bill.path("metadata").path("component") instanceof ObjectNode about) {
            about.removeAll();
            about.put("type", "application");
            about.put("name", name);
            about.put("version", version);
        }
        return this;
    }

    private ArrayNode components() {
        return (ArrayNode) bill.get("components");
    }

    /** Adds a native program, a library or a jar of ppmr. */
    void addNative(Path file, String version) throws IOException {
        ObjectNode component = components().addObject();
        component.put("type", file.toString().matches(".*\\.(so|jar)") ? "library" : "application");
        component.put("bom-ref", "native:" + file.getFileName());
        component.put("name", file.getFileName().toString());
        component.put("version", version);
        component.put("scope", "required");
        ObjectNode hash = component.putArray("hashes").addObject();
        hash.put("alg", "SHA-256");
        hash.put("content", sha256(file));
        component.putArray("licenses").addObject().putObject("license").put("id", "Apache-2.0");
    }

    /**
     * Adds the C library that the native programs contain, because they are linked statically.
     *
     * @param version as getconf(1) prints it, such as {@code glibc 2.36}
     */
    void addCLibrary(String version) {
        ObjectNode component = components().addObject();
        component.put("type", "library");
        component.put("bom-ref", "native:glibc");
        component.put("name", "glibc");
        component.put("version", version.substring(version.indexOf(' ') + 1));
        component.put("scope", "required");
        component.put("description", "linked into the native programs");
        component.putArray("licenses").addObject().putObject("license").put("id", "LGPL-2.1-or-later");
    }

    /** Writes it as JSON that is the same for the same content. */
    void write(Path file) throws IOException {
        Files.writeString(file, mapper.writerWithDefaultPrettyPrinter().writeValueAsString(bill) + "\n");
    }

    /** Returns each component with version and licences, one a line, for people. */
    String licences() {
        TreeMap<String, String> lines = new TreeMap<>();
        for (JsonNode component : components()) {
            List<String> names = new ArrayList<>();
            for (JsonNode one : component.path("licenses")) {
                JsonNode licence = one.path("license");
                names.add(
                        one.has("expression")
                                ? one.get("expression").asText()
                                : licence.has("id")
                                        ? licence.get("id").asText()
                                        : licence.path("name").asText());
            }
            lines.put(
                    component.path("name").asText() + " "
                            + component.path("version").asText(),
                    names.isEmpty() ? "see the jar" : String.join(" or ", names));
        }
        StringBuilder text = new StringBuilder(LICENCES);
        lines.forEach((name, licence) -> text.append(String.format(Locale.ROOT, "%-45s %s\n", name, licence)));
        return text.toString();
    }

    private static String sha256(Path file) throws IOException {
        return HexFormat.of().formatHex(PackageDigest.sha256().digest(Files.readAllBytes(file)));
    }
}
