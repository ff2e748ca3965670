package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class CheckpointerSettingsTest {
    private static final NativePrograms PROGRAMS = new NativePrograms(Path.of("nowhere"));

    private static Checkpointer dmtcp() {
        return new CheckpointerSettings.CommandTool(
                        List.of("dump", "{pid}"),
                        List.of("load", "{file}"),
                        ReadingMode.STREAMED,
                        "ckpt_{rank}.dmtcp",
                        List.of("ckpt_{rank}.dmtcp"),
                        List.of(),
                        Map.of(".temp", "", ".dmtcp.temp", ".dmtcp"),
                        RunAs.JOB_USER,
                        false,
                        true,
                        NamespacePolicy.AUTO)
                .create("command", PROGRAMS);
    }

    @Test
    void shouldGiveTheFinalNameOfATemporaryOne() {
        assertEquals(Optional.of("ckpt_1.dmtcp"), dmtcp().finalNameOf("ckpt_1.dmtcp.temp"));
        assertEquals(Optional.of("script"), dmtcp().finalNameOf("script.temp"));
        assertEquals(Optional.empty(), dmtcp().finalNameOf("ckpt_1.dmtcp"));
        assertEquals(Optional.empty(), dmtcp().finalNameOf(".temp"));
    }

    @Test
    void shouldPutTheRankIntoAnnouncedNames() {
        assertEquals(List.of("ckpt_12.dmtcp"), dmtcp().expectedNames(12));
        assertEquals(List.of(), dmtcp().completionNames(12));
        assertEquals(
                List.of("context.12"),
                CheckpointerSettings.Blcr.installed().create("blcr", PROGRAMS).expectedNames(12));
    }

    @Test
    void shouldNotLookAtAValueAgain() {
        Map<String, String> values = Map.of("file", "/a b/{pid}$1\\", "pid", "7");
        assertEquals(
                List.of("x/a b/{pid}$1\\", "7,7", "{other}"),
                CommandTemplate.fill(List.of("x{file}", "{pid},{pid}", "{other}"), values));
    }

    @Test
    void shouldNameAnUnknownPlaceholder() {
        String message = assertThrows(
                        IllegalArgumentException.class,
                        () -> CheckpointerSettings.CommandTool.streamed(List.of("dump", "{pdi}"), List.of("load")))
                .getMessage();
        assertTrue(message.contains("{pdi}") && message.contains("pid"), message);
        assertThrows(
                IllegalArgumentException.class,
                () -> CheckpointerSettings.CommandTool.streamed(List.of("dump"), List.of("load", "{pid}")));
        assertThrows(
                IllegalArgumentException.class,
                () -> CheckpointerSettings.CommandTool.streamed(List.of(), List.of("load")));
    }

    @Test
    void shouldCompareVersionsByNumber() {
        assertTrue(CriuCheckpointer.compare("Version: 3.17.1", 4, 0) < 0);
        assertTrue(CriuCheckpointer.compare("Version: 4.1.1", 4, 0) > 0);
        assertTrue(CriuCheckpointer.compare("6.1.0-18-amd64", 6, 13) < 0);
        assertEquals(0, CriuCheckpointer.compare("6.13.2", 6, 13));
    }

    /** CRIU 4.2 counts pages in a field that older versions do not have. */
    @Test
    void shouldSayThatAnOlderCriuLosesMemoryWhenTheSourceHasOneOf42OrLater() {
        String newer = "CRIU Version: 4.2.1 on kernel 6.18.44";
        String why = CriuCheckpointer.whyNotFrom(newer, "Version: 4.1.1").orElseThrow();
        assertTrue(why.contains("4.2.1") && why.contains("4.1.1"), why);
        assertTrue(CriuCheckpointer.whyNotFrom(newer, "Version: 4.2").isEmpty());
        assertTrue(CriuCheckpointer.whyNotFrom("CRIU Version: 4.1.1 on kernel 6.18.44", "Version: 4.2.1")
                .isEmpty());
        assertTrue(
                CriuCheckpointer.whyNotFrom("it is not known", "Version: 4.1.1").isEmpty());
    }

    @Test
    void shouldNameTheHelperThatIsMissing() {
        Availability availability =
                CheckpointerSettings.Blcr.installed().create("blcr", PROGRAMS).probe();
        assertTrue(availability.detail().contains("ppmr-launch"), availability.toString());
    }

    @Test
    void shouldHoldACopyUntilItIsWholeWhenItIsRootsOrTheKernelReportsMovesInAnotherWay() {
        JobUser user = new JobUser(1000, 1000);
        assertTrue(CriuCheckpointer.mayRunBeforeItIsWhole(user, "6.18.0-1-amd64"));
        assertFalse(CriuCheckpointer.mayRunBeforeItIsWhole(user, "6.12.43+deb13-amd64"));
        assertFalse(CriuCheckpointer.mayRunBeforeItIsWhole(new JobUser(0, 0), "6.18.0-1-amd64"));
    }
}
