package io.ppmr.protocol;

import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;

/** Writes and reads what nodes tell about themselves and what was found in it. Any thread. */
final class FactsCodec {
    /** Of a list's entry that has a text in it: the text's length and one number at least. */
    private static final int LEAST_ENTRY_BYTES = 2;

    private FactsCodec() {}

    static void write(Bytes<?> out, NodeFacts node) {
        ControlMessageCodec.writeTexts(
                out, node.hostName(), node.architecture(), node.kernel(), node.libc(), node.jdk());
        out.writeLong(node.clockEpochMs()).writeLong(node.availableBytes()).writeLong(node.stagingBytes());
        out.writeInt(node.chunkBytes());
        writeTexts(out, node.cpuFeatures());
        writeTexts(out, node.rdmaPorts());
        ControlMessageCodec.writeCount(out, node.tools().size());
        for (NodeFacts.Tool tool : node.tools()) {
            ControlMessageCodec.writeText(out, tool.name());
            out.writeByte((byte) (tool.available() ? 1 : 0));
            ControlMessageCodec.writeText(out, tool.detail());
        }
    }

    static NodeFacts readNode(Bytes<?> in) throws ProtocolException {
        String hostName = ControlMessageCodec.text(in);
        String architecture = ControlMessageCodec.text(in);
        String kernel = ControlMessageCodec.text(in);
        String libc = ControlMessageCodec.text(in);
        String jdk = ControlMessageCodec.text(in);
        long clock = in.readLong();
        long available = in.readLong();
        long staging = in.readLong();
        int chunk = in.readInt();
        List<String> features = readTexts(in);
        List<String> ports = readTexts(in);
        int count = ControlMessageCodec.readCount(in, LEAST_ENTRY_BYTES);
        List<NodeFacts.Tool> tools = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            tools.add(new NodeFacts.Tool(
                    ControlMessageCodec.text(in), in.readUnsignedByte() != 0, ControlMessageCodec.text(in)));
        }
        return new NodeFacts(
                hostName, architecture, kernel, libc, jdk, clock, available, staging, chunk, features, ports, tools);
    }

    static void write(Bytes<?> out, JobFacts job) {
        ControlMessageCodec.writeText(out, job.checkpointer());
        out.writeLong(job.residentBytes());
        ControlMessageCodec.writeInts(out, job.pids());
        ControlMessageCodec.writeCount(out, job.files().size());
        for (JobFacts.MappedFile file : job.files()) {
            ControlMessageCodec.writeText(out, file.path());
            out.writeLong(file.lengthBytes());
        }
    }

    static JobFacts readJob(Bytes<?> in) throws ProtocolException {
        String checkpointer = ControlMessageCodec.text(in);
        long resident = in.readLong();
        List<Integer> pids = ControlMessageCodec.readInts(in);
        int count = ControlMessageCodec.readCount(in, LEAST_ENTRY_BYTES);
        List<JobFacts.MappedFile> files = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            files.add(new JobFacts.MappedFile(ControlMessageCodec.text(in), in.readLong()));
        }
        return new JobFacts(checkpointer, resident, pids, files);
    }

    static void write(Bytes<?> out, List<Finding> findings) {
        ControlMessageCodec.writeCount(out, findings.size());
        for (Finding finding : findings) {
            out.writeByte((byte) finding.level().code());
            ControlMessageCodec.writeTexts(out, finding.check(), finding.text(), finding.remedy());
        }
    }

    static List<Finding> readFindings(Bytes<?> in) throws ProtocolException {
        int count = ControlMessageCodec.readCount(in, LEAST_ENTRY_BYTES);
        List<Finding> findings = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            findings.add(new Finding(
                    Finding.Level.of(in.readUnsignedByte()),
                    ControlMessageCodec.text(in),
                    ControlMessageCodec.text(in),
                    ControlMessageCodec.text(in)));
        }
        return findings;
    }

    private static void writeTexts(Bytes<?> out, List<String> texts) {
        ControlMessageCodec.writeCount(out, texts.size());
        texts.forEach(text -> ControlMessageCodec.writeText(out, text));
    }

    private static List<String> readTexts(Bytes<?> in) throws ProtocolException {
        int count = ControlMessageCodec.readCount(in, 1);
        List<String> texts = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            texts.add(ControlMessageCodec.text(in));
        }
        return texts;
    }
}
