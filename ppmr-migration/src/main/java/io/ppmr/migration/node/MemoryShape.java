package io.ppmr.migration.node;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.linux.MappingLine;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The part of some processes' memory that can be streamed into their copies, and its cost; see proc_pid_smaps(5) and
 * proc_pid_pagemap(5). Private memory without a file can be streamed, unless it is locked or of huge pages. CRIU calls
 * such memory lazy. Immutable.
 *
 * @param streamableBytes streamable memory, counted for each process
 * @param sharedBytes part of it that processes share since a fork, except for one of them. It is streamed for each
 *     process, so the copies need this additional memory.
 * @param pages number of pages that were inspected one by one
 * @param runs number of runs of adjacent pages among them
 */
public record MemoryShape(long streamableBytes, long sharedBytes, long pages, long runs) {
    private static final Logger LOG = LoggerFactory.getLogger(MemoryShape.class);

    /** Minimum size for streaming. Less than this fits the pool and the bounce buffers. */
    static final long LEAST_BYTES = 64L << 20;

    private static final int PAGE_BYTES = 4096;
    private static final int ENTRY_BYTES = 8;
    /** Number of entries in one read. */
    private static final int ENTRIES = 1 << 15;
    /** The bits of an entry for a page that is in memory, and for one that is in swap. */
    private static final long PRESENT = 3L << 62;

    private static final long KIB = 1024;
    private static final long MIB = 1 << 20;
    private static final long LEAST_PAGES_A_RUN = 8;
    /** Maximum fraction (1/n) of a node's memory for pages that the copies no longer share. */
    private static final int UNSHARED_PART = 16;

    /**
     * Returns why images are better for a job of this shape, or empty if streaming is better.
     *
     * @param residentBytes the job's memory
     * @param nodeBytes memory of its node, and presumably of the target
     */
    public Optional<String> whyImages(long residentBytes, long nodeBytes) {
        if (streamableBytes < LEAST_BYTES) {
            return Optional.of("only " + streamableBytes / MIB + " MiB of the job's memory could be streamed, which"
                    + " gains nothing");
        }
        if (streamableBytes < residentBytes / 2) {
            return Optional.of("only " + streamableBytes / MIB + " of the job's " + residentBytes / MIB
                    + " MiB could be streamed; the rest is shared, locked, or of files");
        }
        if (sharedBytes > nodeBytes / UNSHARED_PART) {
            return Optional.of(
                    "the job's processes share " + sharedBytes / MIB + " MiB since a fork, and each copy would need"
                            + " its own: that is more than a sixteenth of this node's " + nodeBytes / MIB
                            + " MiB");
        }
        if (runs > pages / LEAST_PAGES_A_RUN) {
            return Optional.of("the job's memory lies in small pieces: " + runs + " for " + pages + " pages of 4 KiB");
        }
        return Optional.empty();
    }

    /** No memory. */
    public static final MemoryShape NONE = new MemoryShape(0, 0, 0, 0);

    /** Returns the sum of both. */
    public MemoryShape plus(MemoryShape other) {
        return new MemoryShape(
                streamableBytes + other.streamableBytes,
                sharedBytes + other.sharedBytes,
                pages + other.pages,
                runs + other.runs);
    }

    /**
     * Inspects processes. A process that ends in the meantime is left out.
     *
     * @param mostPages maximum number of pages of address space that are inspected one by one
     * @param preparation checked between two mappings
     */
    public static MemoryShape of(Collection<ProcessIdentity> processes, long mostPages, Preparation preparation)
            throws CheckpointException {
        Reader reader = new Reader(mostPages, preparation);
        for (ProcessIdentity process : processes) {
            try {
                reader.add(Path.of("/proc", Integer.toString(process.pid())));
            } catch (IOException e) {
                // The process ended, or its memory cannot be read. Unreadable memory counts as not streamable.
                LOG.debug("the memory of PID {} is left out: {}", process.pid(), e.getMessage());
            }
        }
        return new MemoryShape(
                reader.streamable, Math.max(0, reader.streamable - reader.share), reader.pages, reader.runs);
    }

    /** The sums so far. */
    private static final class Reader {
        private final ByteBuffer entries =
                ByteBuffer.allocate(ENTRIES * ENTRY_BYTES).order(ByteOrder.nativeOrder());
        private final Preparation preparation;
        private long streamable;
        private long share;
        private long pages;
        private long runs;
        private long unlooked;

        private MappingLine mapping;
        private long anonymous;
        private long proportional;

        Reader(long mostPages, Preparation preparation) {
            unlooked = mostPages;
            this.preparation = preparation;
        }

        void add(Path proc) throws IOException, CheckpointException {
            try (BufferedReader smaps = Files.newBufferedReader(proc.resolve("smaps"), StandardCharsets.ISO_8859_1);
                    FileChannel pagemap = FileChannel.open(proc.resolve("pagemap"))) {
                mapping = null;
                for (String line = smaps.readLine(); line != null; line = smaps.readLine()) {
                    int colon = line.indexOf(':');
                    String key = colon < 0 ? "" : line.substring(0, colon);
                    switch (key) {
                        case "Pss" -> proportional += kib(line);
                        case "Anonymous", "Swap" -> anonymous += kib(line);
                        case "SwapPss" -> proportional += kib(line);
                        case "VmFlags" -> endMapping(line, pagemap);
                        default -> begin(line);
                    }
                }
            }
        }

        /** Reads a mapping's first line. Other lines are ignored. */
        private void begin(String line) {
            Optional<MappingLine> next = MappingLine.parse(line);
            if (next.isPresent()) {
                mapping = next.get();
                anonymous = 0;
                proportional = 0;
            }
        }

        private void endMapping(String flags, FileChannel pagemap) throws IOException, CheckpointException {
            preparation.requireTime();
            // Streamable is private memory without a file that is neither the kernel's own, nor locked, nor of huge
            // pages.
            if (mapping == null
                    || mapping.isShared()
                    || mapping.inode() != 0
                    || mapping.path().startsWith("[v")
                    || flags.contains(" lo")
                    || flags.contains(" ht")) {
                return;
            }
            streamable += anonymous;
            share += Math.min(proportional, anonymous);
            if (anonymous > 0) {
                look(pagemap, mapping.from(), mapping.to());
            }
        }

        private void look(FileChannel pagemap, long from, long to) throws IOException {
            boolean before = false;
            long at = from / PAGE_BYTES;
            long end = Math.min(to / PAGE_BYTES, at + unlooked);
            while (at < end) {
                entries.clear().limit((int) Math.min(ENTRIES, end - at) * ENTRY_BYTES);
                if (pagemap.read(entries, at * ENTRY_BYTES) <= 0) {
                    return;
                }
                entries.flip();
                for (; entries.remaining() >= ENTRY_BYTES; at++, unlooked--) {
                    boolean there = (entries.getLong() & PRESENT) != 0;
                    pages += there ? 1 : 0;
                    runs += there && !before ? 1 : 0;
                    before = there;
                }
            }
        }

        private static long kib(String line) throws IOException {
            return ProcStat.kib(line) * KIB;
        }
    }
}
