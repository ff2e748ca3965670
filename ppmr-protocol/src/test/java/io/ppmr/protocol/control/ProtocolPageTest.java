package io.ppmr.protocol.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.TransferReport;
import java.io.IOException;
import java.lang.reflect.RecordComponent;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** {@code docs/internals/protocol.md} agrees with the code. */
class ProtocolPageTest {
    private static final Pattern DRAWING_IN_JAVADOC = Pattern.compile("<pre>\\n(.*?) \\* </pre>", Pattern.DOTALL);

    private Path home;
    private String page;

    @BeforeEach
    void read() throws IOException {
        String property = System.getProperty("ppmr.home");
        assertNotNull(property, "system property ppmr.home, the root of the sources");
        home = Path.of(property);
        page = Files.readString(home.resolve("docs/internals/protocol.md"));
    }

    @Test
    void shouldHaveARowForEveryTypeWithItsCode() {
        for (FrameType type : FrameType.values()) {
            assertTrue(page.contains("\n| " + type + " | " + type.code() + " | "), "a row for " + type);
        }
    }

    @Test
    void shouldHaveARowForEveryMessageWithItsFieldsInOrder() {
        for (Class<?> message : ControlMessageTest.kinds()) {
            Matcher row = Pattern.compile("\\n\\| " + message.getSimpleName() + " \\| (\\d+) \\| [^|]*\\| ([^\\n]*)")
                    .matcher(page);
            assertTrue(row.find(), "a row for " + message.getSimpleName());
            Class<?> fieldsOf = message == ControlMessage.Prepared.class ? TransferReport.class : message;
            int at = 0;
            for (RecordComponent field : fieldsOf.getRecordComponents()) {
                Matcher word = Pattern.compile("\\b" + field.getName() + "\\b").matcher(row.group(2));
                assertTrue(word.find(at), message.getSimpleName() + "." + field.getName() + " in its place");
                at = word.end();
            }
        }
    }

    @Test
    void shouldShowEveryDrawingOfTheSources() throws IOException {
        List<String> missing = new ArrayList<>();
        int drawings = 0;
        for (Path folder :
                List.of(home.resolve("ppmr-protocol/src/main/java"), home.resolve("ppmr-transport/src/main/java"))) {
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path file :
                        files.filter(path -> path.toString().endsWith(".java")).toList()) {
                    Matcher drawing = DRAWING_IN_JAVADOC.matcher(Files.readString(file));
                    while (drawing.find()) {
                        drawings++;
                        String lines = drawing.group(1).replaceAll("(?m)^ \\*  ?", "");
                        if (!page.contains("```\n" + lines + "```\n")) {
                            missing.add(file + ":\n" + lines);
                        }
                    }
                }
            }
        }
        assertEquals(List.of(), missing);
        assertEquals(10, drawings, "drawings that were found");
    }

    @Test
    void shouldNameTheLimitsOfTheCode() {
        assertTrue(page.contains("| frame | " + Frame.MAX_FRAME_BYTES + " bytes |"), "the longest frame");
        assertTrue(
                page.contains("| windows in a CREDIT_REQUEST | " + CreditRequestFrame.MAX_COUNT + " |"),
                "the largest CREDIT_REQUEST");
        assertTrue(page.contains("`format` is " + Frame.FORMAT + "."), "the format");
        for (ProtocolVersion version : ProtocolVersion.values()) {
            String row = "\n| " + version.number() + " | " + version.added() + " |\n";
            assertTrue(page.contains(row), "a row for version " + version.number());
        }
        assertTrue(page.contains("The first " + FilePrefixFrame.PREFIX_BYTES + " bytes of each file"), "the head");
    }
}
