package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.protocol.control.ReturnToken;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The record, the order and the status of a pod in both directions of their JSON. */
class PodRecordTest {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final ProcessIdentity INIT = new ProcessIdentity("boot", 1, 2, 3);

    @TempDir
    private Path folder;

    private static PodRecord pod() {
        return new PodRecord(
                new PodSpecification("client", "ring", "usual", List.of("A=secret"), List.of("sleep", "5")),
                1,
                2,
                new PodAddresses("10.20.0.12", "fd00:20::a14:c", "02:50:0a:14:00:0c"),
                "br0",
                "ppmr0a14000c",
                List.of("/usr"),
                7,
                INIT,
                true,
                8,
                null);
    }

    @Test
    void shouldBeReadAsItWasWrittenWhenItStaysAndWhenItMoves() throws Exception {
        assertEquals(Optional.empty(), PodRecord.read(folder));
        pod().write(folder);
        assertEquals(Optional.of(pod()), PodRecord.read(folder));
        PodRecord leaving = pod().leaving("m-1", ReturnToken.of(MigrationSecret.NONE, "10.20.0.12"));
        leaving.write(folder);
        assertEquals(Optional.of(leaving), PodRecord.read(folder));
        assertEquals(pod(), leaving.settled());
    }

    @Test
    void shouldTakeAnOrderWhoseSpecificationStandsBesideItsOtherFieldsWhenAClientSendsIt() throws Exception {
        String sent = "{\"name\": \"a\", \"template\": \"usual\", \"environment\": [\"A=b\"], \"command\": [\"true\"],"
                + " \"address\": \"10.20.0.12\", \"output\": \"/tmp/out\"}";
        PodOrder order = new PodOrder(
                new PodSpecification("a", null, "usual", List.of("A=b"), List.of("true")),
                "10.20.0.12",
                null,
                null,
                null,
                "/tmp/out",
                null);
        assertEquals(order, MAPPER.readValue(sent, PodOrder.class));
        assertEquals(order, MAPPER.readValue(MAPPER.writeValueAsBytes(order), PodOrder.class));
    }

    @Test
    void shouldHaveNoNameAndNoCommandWhenAClientSendsNeither() throws Exception {
        PodOrder order = MAPPER.readValue("{\"command\": null, \"environment\": [null]}", PodOrder.class);
        assertNull(order.name());
        assertFalse(PodOrder.isName(order.specification().job()));
        assertEquals(List.of(), order.specification().command());
        assertEquals(List.of("null"), order.specification().environment());
        assertEquals(
                PodOrder.inPod(null, null).specification(),
                MAPPER.readValue("{}", PodOrder.class).specification());
    }

    @Test
    void shouldShowAddressesAndNoEnvironmentWhenAStatusIsSent() throws Exception {
        PodStatus status = PodStatus.running(pod(), 24, 3);
        JsonNode sent = MAPPER.valueToTree(status);
        assertEquals("1/client", sent.path("name").asText());
        assertEquals("10.20.0.12", sent.path("address").asText());
        assertEquals("ring", sent.path("specification").path("job").asText());
        assertFalse(sent.toString().contains("secret"), sent.toString());
        assertEquals(status, MAPPER.treeToValue(sent, PodStatus.class));
    }
}
