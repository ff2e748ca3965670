package io.ppmr.protocol.control;

import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.MessageFields;
import io.ppmr.protocol.data.ProtocolException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import net.openhft.chronicle.bytes.Bytes;

/** Encodes and decodes the facts of nodes and jobs, and findings. Any thread. */
final class FactsCodec {
    /** Minimum length of a list entry with a text: the text's length and at least one number. */
    private static final int LEAST_ENTRY_BYTES = 2;

    /** Minimum length of a pod: its rank and its numbers, with empty texts. */
    private static final int LEAST_POD_BYTES = 5 * Integer.BYTES + Long.BYTES;

    private FactsCodec() {}

    static void write(Bytes<?> out, NodeFacts node) {
        MessageFields.writeTexts(out, node.hostName(), node.architecture(), node.kernel(), node.libc(), node.jdk());
        out.writeLong(node.clockEpochMs()).writeLong(node.availableBytes()).writeLong(node.stagingBytes());
        out.writeInt(node.chunkBytes());
        MessageFields.writeTexts(out, node.cpuFeatures());
        MessageFields.writeTexts(out, node.rdmaPorts());
        MessageFields.writeCount(out, node.tools().size());
        for (NodeFacts.Tool tool : node.tools()) {
            MessageFields.writeText(out, tool.name());
            out.writeByte((byte) (tool.available() ? 1 : 0));
            MessageFields.writeText(out, tool.detail());
        }
    }

    static NodeFacts readNode(Bytes<?> in) throws ProtocolException {
        String hostName = MessageFields.text(in);
        String architecture = MessageFields.text(in);
        String kernel = MessageFields.text(in);
        String libc = MessageFields.text(in);
        String jdk = MessageFields.text(in);
        long clock = in.readLong();
        long available = in.readLong();
        long staging = in.readLong();
        int chunk = in.readInt();
        List<String> features = MessageFields.texts(in);
        List<String> ports = MessageFields.texts(in);
        int count = MessageFields.count(in, LEAST_ENTRY_BYTES);
        List<NodeFacts.Tool> tools = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            tools.add(new NodeFacts.Tool(MessageFields.text(in), in.readUnsignedByte() != 0, MessageFields.text(in)));
        }
        return new NodeFacts(
                hostName, architecture, kernel, libc, jdk, clock, available, staging, chunk, features, ports, tools);
    }

    static void write(Bytes<?> out, JobFacts job) {
        MessageFields.writeText(out, job.checkpointer());
        out.writeLong(job.residentBytes()).writeLong(job.streamableBytes());
        out.writeUnsignedByte(job.offer().code());
        MessageFields.writeInts(out, job.pids());
        // Nothing is written for a job without pods, so that an earlier release can read the message.
        if (!job.pods().isEmpty()) {
            MessageFields.writeCount(out, job.pods().size());
            job.pods().forEach((rank, pod) -> write(out, rank, pod));
        }
    }

    private static void write(Bytes<?> out, int rank, PodFacts pod) {
        out.writeInt(rank);
        PodSpecification specification = pod.specification();
        MessageFields.writeTexts(out, specification.name(), specification.job(), specification.template());
        MessageFields.writeTexts(out, specification.environment());
        MessageFields.writeTexts(out, specification.command());
        out.writeInt(specification.members());
        MessageFields.writeTexts(out, specification.checkpointEvery());
        out.writeInt(pod.uid()).writeInt(pod.gid());
        PodAddresses addresses = pod.addresses();
        MessageFields.writeTexts(out, addresses.address(), addresses.address6(), addresses.mac());
        out.writeInt(pod.prefixBits()).writeInt(pod.mtuBytes());
        MessageFields.writeTexts(out, pod.mounts());
        out.writeLong(pod.startedAtMs());
        MessageFields.writeFlag(out, pod.answers());
    }

    static JobFacts readJob(Bytes<?> in) throws ProtocolException {
        String checkpointer = MessageFields.text(in);
        long resident = in.readLong();
        long streamable = in.readLong();
        MemoryWay offer = MemoryWay.of(in.readUnsignedByte());
        List<Integer> pids = MessageFields.ints(in);
        Map<Integer, PodFacts> pods = new TreeMap<>();
        // Fewer bytes than a pod are surplus bytes, which the reader of the message refuses.
        int ranks = in.readRemaining() < LEAST_POD_BYTES ? 0 : MessageFields.count(in, LEAST_POD_BYTES);
        for (int i = 0; i < ranks; i++) {
            int rank = in.readInt();
            if (pods.put(rank, readPod(in)) != null) {
                throw new ProtocolException("rank " + rank + " has two pods: the peer is broken");
            }
        }
        return new JobFacts(checkpointer, resident, streamable, offer, pids, pods);
    }

    private static PodFacts readPod(Bytes<?> in) throws ProtocolException {
        return new PodFacts(
                readSpecification(in),
                in.readInt(),
                in.readInt(),
                new PodAddresses(MessageFields.text(in), MessageFields.text(in), MessageFields.text(in)),
                in.readInt(),
                in.readInt(),
                MessageFields.texts(in),
                in.readLong(),
                MessageFields.flag(in));
    }

    private static PodSpecification readSpecification(Bytes<?> in) throws ProtocolException {
        return new PodSpecification(
                MessageFields.text(in),
                MessageFields.text(in),
                MessageFields.text(in),
                MessageFields.texts(in),
                MessageFields.texts(in),
                in.readInt(),
                MessageFields.text(in));
    }

    static void write(Bytes<?> out, List<Finding> findings) {
        MessageFields.writeCount(out, findings.size());
        for (Finding finding : findings) {
            out.writeByte((byte) finding.level().code());
            MessageFields.writeTexts(out, finding.check(), finding.text(), finding.remedy());
        }
    }

    static List<Finding> readFindings(Bytes<?> in) throws ProtocolException {
        int count = MessageFields.count(in, LEAST_ENTRY_BYTES);
        List<Finding> findings = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            findings.add(new Finding(
                    Finding.Level.of(in.readUnsignedByte()),
                    MessageFields.text(in),
                    MessageFields.text(in),
                    MessageFields.text(in)));
        }
        return findings;
    }
}
