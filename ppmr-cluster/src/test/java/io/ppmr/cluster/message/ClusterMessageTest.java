package io.ppmr.cluster.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.record.SpareNeeds;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.auth.PreSharedKey;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.Size;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

/** The messages of a cluster, and the probe of nodes. */
class ClusterMessageTest {
    private static final List<ClusterMessage> ONE_OF_EACH = List.of(
            new ClusterMessage.Join("n1", "source", "00ff"),
            new ClusterMessage.JoinAnswer("id", List.of("c1:7414"), List.of("controller-00"), true, "0f"),
            new ClusterMessage.ListNodes("", "zone", "UP"),
            new ClusterMessage.NodeList(List.of("{}"), true),
            new ClusterMessage.FindSpares(new SpareNeeds("n1", "", SpareNeeds.Where.OTHER, "criu", 1L << 40, 7)),
            new ClusterMessage.Spares(List.of("n2:7411")),
            new ClusterMessage.ProbeNodes(List.of("n2:1", "n3:1")),
            new ClusterMessage.NodesProbed(List.of()),
            new ClusterMessage.NotActive("c2:7413"),
            new ClusterMessage.QuestionRefused("why"),
            new ClusterMessage.AskJobs("show", "{}"),
            new ClusterMessage.JobsAnswer("{\"number\":1}"),
            new ClusterMessage.FindOff(List.of("0123abcd-0123-0123-0123-000000000001")),
            new ClusterMessage.OffBoots(List.of()));

    @Test
    void shouldReadWhatItWrote() throws Exception {
        for (ClusterMessage message : ONE_OF_EACH) {
            assertEquals(message, ClusterMessage.read(message.frame(1), 0));
        }
        assertEquals(
                ClusterMessage.class.getPermittedSubclasses().length,
                ONE_OF_EACH.stream().map(Object::getClass).distinct().count());
    }

    /** A relay could have a service send its user's proof to a server of its own. */
    @Test
    void shouldTrustNoAnswerToAJoinWhenItWasChangedOrIsForAnotherQuestion() {
        PreSharedKey key = new PreSharedKey(new byte[32]);
        ClusterMessage.Join question = ClusterMessage.Join.of("n1", "source");
        ClusterMessage.JoinAnswer proved = new ClusterMessage.JoinAnswer(
                        "id", List.of("c1:7414"), List.of("controller-00"), true, "")
                .provedBy(key, question);
        assertTrue(proved.isProvedBy(key, question));
        assertFalse(proved.isProvedBy(key, ClusterMessage.Join.of("n1", "source")));
        byte[] other = new byte[32];
        other[0] = 1;
        assertFalse(proved.isProvedBy(new PreSharedKey(other), question));
        for (ClusterMessage.JoinAnswer changed : List.of(
                new ClusterMessage.JoinAnswer("x", proved.servers(), proved.controllers(), true, proved.proof()),
                new ClusterMessage.JoinAnswer("id", List.of("evil:1"), proved.controllers(), true, proved.proof()),
                new ClusterMessage.JoinAnswer("id", proved.servers(), List.of("evil"), true, proved.proof()),
                new ClusterMessage.JoinAnswer("id", proved.servers(), proved.controllers(), false, proved.proof()))) {
            assertFalse(changed.isProvedBy(key, question), changed.toString());
        }
    }

    @Property(tries = 3000)
    void shouldThrowOnlyProtocolExceptionsWhenBytesAreWrong(@ForAll @Size(max = 200) byte[] bytes) {
        UnsafeBuffer frame = new UnsafeBuffer(new byte[Frame.HEADER_BYTES + bytes.length]);
        Frame.writeHeader(frame, 0, FrameType.MESSAGE, frame.capacity(), 1, 0);
        frame.putBytes(Frame.HEADER_BYTES, bytes);
        try {
            ClusterMessage.read(frame, 0);
        } catch (ProtocolException e) {
            assertEquals(true, e.getMessage().contains("the peer is broken"), e.getMessage());
        }
    }

    @Test
    void shouldRefuseAnUnknownCode() {
        DirectBuffer frame = new ClusterMessage.NotActive("").frame(1);
        UnsafeBuffer changed = new UnsafeBuffer(new byte[frame.capacity()]);
        changed.putBytes(0, frame, 0, frame.capacity());
        changed.putByte(Frame.HEADER_BYTES, (byte) 99);
        assertThrows(ProtocolException.class, () -> ClusterMessage.read(changed, 0));
    }

    @Test
    void shouldCountARefusalAsAnAnswerAndSilenceAsNone() throws Exception {
        int free;
        try (ServerSocket closed = new ServerSocket(0)) {
            free = closed.getLocalPort();
        }
        try (ServerSocket open = new ServerSocket(0);
                ServerSocket full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                // The kernel drops further connections once two wait to be accepted.
                Socket first = new Socket(full.getInetAddress(), full.getLocalPort());
                Socket second = new Socket(full.getInetAddress(), full.getLocalPort())) {
            assertTrue(first.isConnected() && second.isConnected());
            String answers = "127.0.0.1:" + open.getLocalPort();
            String refuses = "127.0.0.1:" + free;
            String silent = "127.0.0.1:" + full.getLocalPort();
            Set<String> answering = new Prober(2).answering(List.of(answers, refuses, silent, "no address"));
            assertEquals(Set.of(answers, refuses), answering);
        }
    }
}
