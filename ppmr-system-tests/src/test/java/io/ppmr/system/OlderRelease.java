package io.ppmr.system;

import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.testbed.ServiceProcess;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.tools.ToolProvider;

/**
 * Builds the release before out of this tree: the classes without what this release adds to protocol, journal and
 * configuration. They come first in the class path of its services. An edit that does not apply any more fails by name.
 */
final class OlderRelease {
    /** An edit of a source file: {@code text} becomes {@code other}. */
    private record SourceEdit(String file, String text, String other) {}

    private static final String DATA = "ppmr-protocol/src/main/java/io/ppmr/protocol/data/";
    private static final String JOURNAL = "ppmr-transaction/src/main/java/io/ppmr/transaction/journal/";
    private static final String MIGRATION = "ppmr-migration/src/main/java/io/ppmr/migration/";
    private static final String TRACING = "ppmr-tracing/src/main/java/io/ppmr/tracing/TracingPart.java";

    private static final List<SourceEdit> EDITS = List.of(
            new SourceEdit(DATA + "ProtocolVersion.java", "    V9(9,", "    V8(8, \"all\"),\n    V9(9,"),
            new SourceEdit(DATA + "ProtocolVersion.java", "OLDEST = V9;", "OLDEST = V8;"),
            new SourceEdit(DATA + "ProtocolVersion.java", "NEWEST = V10;", "NEWEST = V9;"),
            // The field does not exist: its bytes would be surplus bytes.
            new SourceEdit(
                    DATA + "MessageFields.java",
                    "String addedText(Bytes<?> in) throws ProtocolException {\n        if (in.readRemaining() == 0) {",
                    "String addedText(Bytes<?> in) throws ProtocolException {\n        if (in != null) {"),
            new SourceEdit(JOURNAL + "MappedJournal.java", "int VERSION = 3;", "int VERSION = 2;"),
            new SourceEdit(
                    JOURNAL + "TransactionRecord.java",
                    "            case 27 -> new PeerNode(id, attempt, in.text(), in.int32(), in.text());\n",
                    ""),
            new SourceEdit(
                    MIGRATION + "source/SourceSession.java",
                    "service.note(new TransactionRecord.PeerNode(",
                    "java.util.Objects.requireNonNull(new TransactionRecord.PeerNode("),
            new SourceEdit(MIGRATION + "target/TargetMigration.java", "service.journal().append(sourceNode);", ""),
            // The key does not exist, and no other one of its table.
            new SourceEdit(TRACING, "return List.of(Keys.class);", "return List.of();"),
            new SourceEdit(TRACING, "ConfigFile.FileSection<Keys> section = file.section(Keys.class);", ""),
            new SourceEdit(TRACING, "section.values().otlp();", "Optional.empty();"),
            new SourceEdit(TRACING, "why -> section.bad(OTLP, why)", "why -> {}"));

    /** Files without an edit that contain a constant of an edited one. */
    private static final List<String> WITH_CONSTANTS = List.of(JOURNAL + "JournalLayout.java");

    private OlderRelease() {}

    /** Builds it in an empty folder, and returns the command that starts it. */
    static JavaCommand build(Path folder) throws IOException {
        Path home = Path.of(System.getProperty("ppmr.home"));
        Map<String, String> texts = new TreeMap<>();
        for (String file : WITH_CONSTANTS) {
            texts.put(file, Files.readString(home.resolve(file)));
        }
        for (SourceEdit edit : EDITS) {
            if (edit.file().equals(TRACING) && !Files.exists(home.resolve(TRACING))) {
                // The part was left out of this tree.
                continue;
            }
            String text = texts.containsKey(edit.file())
                    ? texts.get(edit.file())
                    : Files.readString(home.resolve(edit.file()));
            if (!text.contains(edit.text())) {
                throw new IOException(edit.file() + " has no longer: " + edit.text()
                        + ". Remedy: correct the edits of OlderRelease, so that they undo what this release adds");
            }
            texts.put(edit.file(), text.replace(edit.text(), edit.other()));
        }
        List<String> words = new ArrayList<>(ServiceProcess.java().words());
        int classPath = words.indexOf("-cp") + 1;
        Path classes = Files.createDirectories(folder.resolve("classes"));
        List<String> arguments = new ArrayList<>(
                List.of("-proc:none", "--release", "17", "-d", classes.toString(), "-cp", words.get(classPath)));
        for (Map.Entry<String, String> one : texts.entrySet()) {
            Path source = folder.resolve(one.getKey());
            Files.createDirectories(source.getParent());
            arguments.add(Files.writeString(source, one.getValue()).toString());
        }
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        int result = ToolProvider.getSystemJavaCompiler().run(null, output, output, arguments.toArray(String[]::new));
        if (result != 0) {
            throw new IOException("the older release cannot be compiled:\n" + output.toString(StandardCharsets.UTF_8));
        }
        words.set(classPath, classes + ":" + words.get(classPath));
        return new JavaCommand(words);
    }
}
