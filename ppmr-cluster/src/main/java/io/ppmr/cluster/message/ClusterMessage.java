package io.ppmr.cluster.message;

import io.ppmr.cluster.record.SpareNeeds;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageFields;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;
import org.agrona.DirectBuffer;

/**
 * The messages of a cluster: questions to a controller and to a service, with their answers. Each has one frame. They
 * travel on connections of their own, which begin with the handshake of all services. Immutable.
 */
public sealed interface ClusterMessage extends Message {
    /** Makes the nonces. */
    SecureRandom RANDOM = new SecureRandom();

    /**
     * Service to any controller: how to join the cluster.
     *
     * @param nonce a random text, so that the answer proves to be one to this question
     */
    record Join(String host, String role, String nonce) implements ClusterMessage {
        private static final int NONCE_BYTES = 16;

        /** Returns a question that no other is equal to. */
        static Join of(String host, String role) {
            byte[] nonce = new byte[NONCE_BYTES];
            RANDOM.nextBytes(nonce);
            return new Join(host, role, HexFormat.of().formatHex(nonce));
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 64);
            MessageFields.writeTexts(out, host, role, nonce);
        }
    }

    /**
     * The answer to Join.
     *
     * @param clusterId the cluster's random name
     * @param servers the ensemble's servers, each HOST:PORT
     * @param controllers the users of the ensemble that may read a service's record
     * @param tls whether the servers accept connections with TLS alone
     * @param proof a digest of question and answer that requires the key, so that a relay can change neither
     */
    record JoinAnswer(String clusterId, List<String> servers, List<String> controllers, boolean tls, String proof)
            implements ClusterMessage {
        /** Returns this answer with its proof. */
        public JoinAnswer provedBy(PeerAuthenticator key, Join question) {
            return new JoinAnswer(clusterId, servers, controllers, tls, proofBy(key, question));
        }

        boolean isProvedBy(PeerAuthenticator key, Join question) {
            return MessageDigest.isEqual(
                    proof.getBytes(StandardCharsets.US_ASCII),
                    proofBy(key, question).getBytes(StandardCharsets.US_ASCII));
        }

        private String proofBy(PeerAuthenticator key, Join question) {
            String text = String.join(
                    "\n",
                    "ppmr cluster join",
                    question.toString(),
                    clusterId,
                    servers.toString(),
                    controllers.toString(),
                    Boolean.toString(tls));
            return HexFormat.of().formatHex(key.seal(text.getBytes(StandardCharsets.UTF_8)));
        }

        public JoinAnswer {
            servers = List.copyOf(servers);
            controllers = List.copyOf(controllers);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 65);
            MessageFields.writeText(out, clusterId);
            MessageFields.writeTexts(out, servers);
            MessageFields.writeTexts(out, controllers);
            MessageFields.writeFlag(out, tls);
            MessageFields.writeText(out, proof);
        }
    }

    /**
     * To the active controller: the nodes behind a name, in the order of their names.
     *
     * @param after the name; empty for the first nodes
     * @param zone their zone, or empty for any
     * @param state their state, or empty for any
     */
    record ListNodes(String after, String zone, String state) implements ClusterMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 66);
            MessageFields.writeTexts(out, after, zone, state);
        }
    }

    /**
     * The answer to ListNodes.
     *
     * @param nodes each node as JSON
     * @param last whether there are no further ones
     */
    record NodeList(List<String> nodes, boolean last) implements ClusterMessage {
        public NodeList {
            nodes = List.copyOf(nodes);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 67);
            MessageFields.writeTexts(out, nodes);
            MessageFields.writeFlag(out, last);
        }
    }

    /** Source to the active controller: spare nodes for a job. */
    record FindSpares(SpareNeeds needs) implements ClusterMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 68);
            MessageFields.writeTexts(
                    out, needs.host(), needs.zone(), needs.where().name(), needs.tool());
            out.writeLong(needs.memoryBytes()).writeLong(needs.stagingBytes());
        }
    }

    /** The answer to FindSpares: addresses of targets, the best first; empty if none fits. */
    record Spares(List<String> addresses) implements ClusterMessage {
        public Spares {
            addresses = List.copyOf(addresses);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 69);
            MessageFields.writeTexts(out, addresses);
        }
    }

    /** Active controller to a service: probe these addresses of other nodes. */
    record ProbeNodes(List<String> addresses) implements ClusterMessage {
        public ProbeNodes {
            addresses = List.copyOf(addresses);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 70);
            MessageFields.writeTexts(out, addresses);
        }
    }

    /** The answer to ProbeNodes: those of the addresses whose kernel answered. */
    record NodesProbed(List<String> answered) implements ClusterMessage {
        public NodesProbed {
            answered = List.copyOf(answered);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 71);
            MessageFields.writeTexts(out, answered);
        }
    }

    /** An answer to a question for the active controller: another one is active, at this address; empty for none. */
    record NotActive(String active) implements ClusterMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 72);
            MessageFields.writeText(out, active);
        }
    }

    /** An answer to any question: it is refused. */
    record QuestionRefused(String reason) implements ClusterMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 73);
            MessageFields.writeText(out, reason);
        }
    }

    /**
     * A question about jobs over several nodes: to the active controller, or of that one to a service.
     *
     * @param kind its kind
     * @param text its fields, as JSON
     */
    record AskJobs(String kind, String text) implements ClusterMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 74);
            MessageFields.writeTexts(out, kind, text);
        }
    }

    /**
     * The answer to AskJobs.
     *
     * @param text its fields, as JSON
     */
    record JobsAnswer(String text) implements ClusterMessage {
        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 75);
            MessageFields.writeText(out, text);
        }
    }

    /** Service to the active controller: which of these boots of nodes ended? */
    record FindOff(List<String> boots) implements ClusterMessage {
        public FindOff {
            boots = List.copyOf(boots);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 76);
            MessageFields.writeTexts(out, boots);
        }
    }

    /** The answer to FindOff: the boots that ended, as a fence has proved or an operator has reported. */
    record OffBoots(List<String> boots) implements ClusterMessage {
        public OffBoots {
            boots = List.copyOf(boots);
        }

        @Override
        public void write(Bytes<?> out) {
            out.writeByte((byte) 77);
            MessageFields.writeTexts(out, boots);
        }
    }

    /** Reads the message of a MESSAGE frame whose header is valid. */
    static Message read(DirectBuffer frame, int offset) throws ProtocolException {
        return Message.read(frame, offset, ClusterMessage::readFields);
    }

    private static Message readFields(int code, Bytes<?> in) throws ProtocolException {
        return switch (code) {
            case 64 -> new Join(MessageFields.text(in), MessageFields.text(in), MessageFields.text(in));
            case 65 ->
                new JoinAnswer(
                        MessageFields.text(in),
                        MessageFields.texts(in),
                        MessageFields.texts(in),
                        MessageFields.flag(in),
                        MessageFields.text(in));
            case 66 -> new ListNodes(MessageFields.text(in), MessageFields.text(in), MessageFields.text(in));
            case 67 -> new NodeList(MessageFields.texts(in), MessageFields.flag(in));
            case 68 ->
                new FindSpares(new SpareNeeds(
                        MessageFields.text(in),
                        MessageFields.text(in),
                        SpareNeeds.Where.valueOf(MessageFields.text(in)),
                        MessageFields.text(in),
                        in.readLong(),
                        in.readLong()));
            case 69 -> new Spares(MessageFields.texts(in));
            case 70 -> new ProbeNodes(MessageFields.texts(in));
            case 71 -> new NodesProbed(MessageFields.texts(in));
            case 72 -> new NotActive(MessageFields.text(in));
            case 73 -> new QuestionRefused(MessageFields.text(in));
            case 74 -> new AskJobs(MessageFields.text(in), MessageFields.text(in));
            case 75 -> new JobsAnswer(MessageFields.text(in));
            case 76 -> new FindOff(MessageFields.texts(in));
            case 77 -> new OffBoots(MessageFields.texts(in));
            default -> null;
        };
    }
}
