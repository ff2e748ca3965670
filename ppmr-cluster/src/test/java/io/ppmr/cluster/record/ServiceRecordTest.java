package io.ppmr.cluster.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

/** The record that a service writes and controllers read. */
class ServiceRecordTest {
    private static final String BOOT = "0123abcd-0123-0123-0123-0123456789ab";

    private static ServiceRecord record(List<String> tools, long memoryBytes, int load) {
        return new ServiceRecord(
                BOOT,
                "10.0.0.7:7411",
                "10.0.0.7:40001",
                "rack-7",
                "0.3.0",
                memoryBytes,
                1L << 30,
                2,
                load,
                tools,
                "00ff00ff",
                1);
    }

    @Test
    void shouldReadWhatItWrote() {
        ServiceRecord record = record(List.of("criu", "blcr"), 1L << 40, 150);
        byte[] bytes = record.encode();
        assertTrue(bytes.length <= ServiceRecord.MAX_BYTES, bytes.length + " bytes");
        assertEquals(Optional.of(record), ServiceRecord.decode(bytes));
    }

    @Test
    void shouldLeaveOutToolsWhenItWouldBeTooLong() {
        ServiceRecord record = record(Collections.nCopies(100, "checkpointer"), 1, 0);
        byte[] bytes = record.encode();
        assertTrue(bytes.length <= ServiceRecord.MAX_BYTES, bytes.length + " bytes");
        ServiceRecord read = ServiceRecord.decode(bytes).orElseThrow();
        assertTrue(
                read.tools().size() > 5 && read.tools().size() < 100,
                read.tools().size() + " tools");
    }

    @Test
    void shouldBeWrittenAgainOnlyWhenAFigureHasMovedByAnEighth() {
        ServiceRecord before = record(List.of("criu"), 800, 80);
        assertFalse(record(List.of("criu"), 890, 88).differsFrom(before));
        assertTrue(record(List.of("criu"), 600, 80).differsFrom(before));
        assertTrue(record(List.of("criu"), 800, 95).differsFrom(before));
        assertTrue(record(List.of(), 800, 80).differsFrom(before));
    }

    @Test
    void shouldRefuseOtherFormsAndWrongValues() {
        String good = new String(record(List.of("criu"), 1, 0).encode(), StandardCharsets.UTF_8);
        assertTrue(ServiceRecord.decode(good.getBytes(StandardCharsets.UTF_8)).isPresent());
        for (String bad : List.of(
                "",
                "null",
                "[]",
                good + "x",
                good.replace(BOOT, "../../etc/passwd"),
                good.replace("10.0.0.7:7411", "no address"),
                good.replace("10.0.0.7:40001", "slow.example:1"),
                good.replace("10.0.0.7:40001", "999.0.0.7:1"),
                good.replace("10.0.0.7:40001", "10.0.0.7:0"),
                good.replace("rack-7", "rack 7"),
                good.replace("\"places\":2", "\"places\":-2"),
                good.replace("\"places\":2", "\"places\":null"),
                good.replace("\"criu\"", "\"a\\nb\""),
                good.replace("}", " ".repeat(ServiceRecord.MAX_BYTES) + "}"))) {
            assertEquals(Optional.empty(), ServiceRecord.decode(bad.getBytes(StandardCharsets.UTF_8)), bad);
        }
    }

    @Test
    void shouldTakeFieldsOfANewerReleaseAndAddressesOfBothFamilies() {
        String good = new String(record(List.of("criu"), 1, 0).encode(), StandardCharsets.UTF_8);
        for (String newer : List.of(
                good.replace("\"places\":2", "\"places\":2,\"more\":1"),
                good.replace("10.0.0.7:40001", "[fd00::7]:40001"),
                good.replace("10.0.0.7:40001", "[fe80::7%eth0]:40001"))) {
            assertTrue(
                    ServiceRecord.decode(newer.getBytes(StandardCharsets.UTF_8)).isPresent(), newer);
        }
    }

    @Property(tries = 5000)
    void shouldThrowNothingWhenBytesAreChanged(
            @ForAll @Size(max = 6) List<@IntRange(max = 511) Integer> places, @ForAll byte value) {
        byte[] bytes = record(List.of("criu", "blcr"), 1L << 40, 150).encode();
        places.forEach(place -> bytes[place % bytes.length] = value);
        ServiceRecord.decode(bytes).ifPresent(read -> assertTrue(read.encode().length <= ServiceRecord.MAX_BYTES));
    }

    @Property(tries = 2000)
    void shouldThrowNothingWhenAnythingIsRead(@ForAll @Size(max = 600) byte[] bytes) {
        assertEquals(Optional.empty(), ServiceRecord.decode(bytes));
    }

    @Test
    void shouldTakeOnlyNamesOfHostsAndRoles() {
        assertEquals(Optional.of(new ServiceName("n1.site", "target")), ServiceName.parse("n1.site.target"));
        for (String bad : List.of("n1", "n1.doctor", "../x.target", ".target", "a b.source", "-.source")) {
            assertEquals(Optional.empty(), ServiceName.parse(bad), bad);
        }
    }
}
