package io.ppmr.migration.node;

import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.target.image.Staging;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checks whether a job of another node could continue at this one. The target runs it, because only the target can read
 * its own files and PIDs. It serves {@code ppmr doctor --peer}, and each migration's start, where a failure is a
 * refusal. docs/reference/doctor.md has every check with its reason.
 */
public final class PairCheck {
    /** Checks whose failure may be wrong for some jobs. A site may turn them into warnings. */
    public static final List<String> IGNORABLE = List.of("cpu", "libc", "memory", "staging", "files", "pids");

    private static final long MIB = 1 << 20;
    private static final Pattern TWO_NUMBERS = Pattern.compile("^(\\d{1,9})\\.(\\d{1,9})");

    /**
     * The free capacity of a target, in addition to its hardware. Immutable.
     *
     * @param stagingInMemory whether an image that waits here needs memory, too
     * @param promisedBytes memory that current migrations here will still need
     * @param whyStagingIsSmall why images have less room than configured, as a suffix to a number, or empty if they do
     *     not
     */
    public record TargetCapacity(boolean stagingInMemory, long promisedBytes, String whyStagingIsSmall) {}

    private final NodeFacts source;
    private final JobFacts job;
    private final NodeFacts target;
    private final RestartNeeds needs;
    private final ReadingMode reading;
    private final TargetCapacity room;
    private final List<Finding> findings = new ArrayList<>();

    private PairCheck(
            NodeFacts source,
            JobFacts job,
            NodeFacts target,
            RestartNeeds needs,
            ReadingMode reading,
            TargetCapacity room) {
        this.source = source;
        this.job = job;
        this.target = target;
        this.needs = needs;
        this.reading = reading;
        this.room = room;
    }

    /**
     * Compares the nodes.
     *
     * @param needs needs of the checkpointer that would restart the job here
     * @param reading how that checkpointer reads
     * @param room capacity that other migrations leave here
     */
    public static List<Finding> findings(
            NodeFacts source,
            JobFacts job,
            NodeFacts target,
            RestartNeeds needs,
            ReadingMode reading,
            TargetCapacity room) {
        PairCheck check = new PairCheck(source, job, target, needs, reading, room);
        check.machine();
        check.kernel();
        check.libc();
        check.chunk();
        check.rdma();
        if (!job.checkpointer().isEmpty()) {
            check.memory();
            check.staging();
            check.pids();
        }
        return check.findings;
    }

    private void machine() {
        if (!source.architecture().equals(target.architecture())) {
            findings.add(Finding.fail(
                    "cpu",
                    "the source is " + source.architecture() + ", this node " + target.architecture(),
                    "name a spare node of the same architecture"));
            return;
        }
        List<String> missing = CpuFeatures.missing(source.cpuFeatures(), target.cpuFeatures());
        List<String> slower = CpuFeatures.slower(source.cpuFeatures(), target.cpuFeatures());
        if (missing.isEmpty() && !slower.isEmpty()) {
            findings.add(Finding.warn(
                    "cpu",
                    "this node's processor does not report " + String.join(" ", slower)
                            + ", which the source's reports: the job continues, and may copy memory more slowly",
                    "compare the two nodes' firmware settings and hypervisors: the same processor may report it on only"
                            + " one of them"));
        } else if (missing.isEmpty()) {
            findings.add(Finding.ok("cpu", "this node has every instruction that the source has"));
        } else {
            findings.add(Finding.fail(
                    "cpu",
                    "this node's processor lacks " + String.join(" ", missing)
                            + ", which the source's has; libraries choose instructions when a program starts, so the"
                            + " job may use them",
                    "name a spare node whose processor has them"));
        }
    }

    private void kernel() {
        if (source.kernel().equals(target.kernel())) {
            findings.add(Finding.ok("kernel", target.kernel() + " on both"));
        } else if (older(target.kernel(), source.kernel())) {
            findings.add(Finding.warn(
                    "kernel",
                    "this node's " + target.kernel() + " is older than the source's " + source.kernel()
                            + ": state of newer kernels cannot be restored",
                    "boot the spare node with the source's kernel or a newer one"));
        } else {
            findings.add(Finding.ok("kernel", source.kernel() + " at the source, " + target.kernel() + " here"));
        }
    }

    /** Returns true if the first two numbers of a release are smaller. Releases without numbers are not compared. */
    private static boolean older(String one, String other) {
        Matcher a = TWO_NUMBERS.matcher(one);
        Matcher b = TWO_NUMBERS.matcher(other);
        if (!a.find() || !b.find()) {
            return false;
        }
        int major = Integer.compare(Integer.parseInt(a.group(1)), Integer.parseInt(b.group(1)));
        return major < 0 || (major == 0 && Integer.parseInt(a.group(2)) < Integer.parseInt(b.group(2)));
    }

    private void libc() {
        if (source.libc().equals(target.libc())) {
            findings.add(Finding.ok("libc", target.libc() + " on both"));
            return;
        }
        String text = "the source has " + source.libc() + ", this node " + target.libc();
        String remedy = "install the same release of the operating system on both";
        // The comparison of the job's own files is more precise, because a job may bring its own library.
        findings.add(Finding.warn("libc", text, remedy));
    }

    private void chunk() {
        findings.add(Finding.failUnless(
                source.chunkBytes() == target.chunkBytes(),
                "chunk",
                source.chunkBytes() + " bytes on both",
                "the source's chunks have " + source.chunkBytes() + " bytes, this node's " + target.chunkBytes(),
                "configure the same pool.chunk on both nodes; if it is \"auto\" on both, the same pool.size"));
    }

    private void rdma() {
        if (source.rdmaPorts().isEmpty() != target.rdmaPorts().isEmpty()) {
            findings.add(Finding.warn(
                    "rdma",
                    "only " + (target.rdmaPorts().isEmpty() ? "the source" : "this node")
                            + " has an RDMA port that is up: bytes go over TCP",
                    "see ppmr doctor on the other node"));
        } else {
            findings.add(Finding.ok(
                    "rdma", target.rdmaPorts().isEmpty() ? "no port on either: TCP" : "ports up on both nodes"));
        }
    }

    private void memory() {
        long mapBytes = mapBytes();
        long waitsInMemoryBytes = room.stagingInMemory() ? waitingBytes() : 0;
        String text = "the job has " + job.residentBytes() / MIB + " MiB, "
                + (waitsInMemoryBytes > 0
                        ? "and "
                                + (waitsInMemoryBytes == job.residentBytes()
                                        ? "as much again"
                                        : waitsInMemoryBytes / MIB + " MiB")
                                + " for its image, since staging is in memory, "
                        : "")
                + target.availableBytes() / MIB + " MiB are available here"
                + (room.promisedBytes() > 0
                        ? ", of which " + room.promisedBytes() / MIB + " MiB are for migrations under way"
                        : "");
        boolean enough =
                job.residentBytes() + waitsInMemoryBytes + mapBytes <= target.availableBytes() - room.promisedBytes();
        String remedy = "free memory on this node, or name another spare node";
        findings.add(Finding.failUnless(enough, "memory", text, text, remedy));
    }

    private void staging() {
        if (reading == ReadingMode.STREAMED) {
            return;
        }
        String text = "an image of about " + waitingBytes() / MIB + " MiB has to wait here as a whole; staging"
                + " has room for " + target.stagingBytes() / MIB + " MiB" + room.whyStagingIsSmall();
        String remedy = "raise staging.limit, or name a directory with more room, or another spare node";
        findings.add(Finding.failUnless(waitingBytes() <= target.stagingBytes(), "staging", text, text, remedy));
        if (mapBytes() > Staging.MAX_MAP_BYTES) {
            findings.add(Finding.fail(
                    "staging",
                    "an image of about " + waitingBytes() / MIB + " MiB has to wait here as a whole; one migration may"
                            + " have 4 TiB in staging",
                    "move the job in parts, or by a checkpointer whose images are streamed"));
        }
    }

    /** Returns the bytes that wait here until the image is complete. Streamed bytes do not wait. */
    private long waitingBytes() {
        return reading == ReadingMode.RETAINED ? job.waitingBytes() : 0;
    }

    /** Returns the memory for the map of an image that waits here as a whole. */
    private long mapBytes() {
        return reading == ReadingMode.RETAINED ? Staging.mapBytes(waitingBytes()) : 0;
    }

    private void pids() {
        if (!needs.freePids()) {
            return;
        }
        List<Integer> taken = job.pids().stream()
                .filter(pid -> Files.exists(Path.of("/proc", Integer.toString(pid))))
                .toList();
        findings.add(Finding.failUnless(
                taken.isEmpty(),
                "pids",
                "the job's PIDs are free here",
                "the restart needs PIDs that are taken here: " + taken,
                "let each rank have a PID namespace of its own (namespaces = \"auto\")"));
    }
}
