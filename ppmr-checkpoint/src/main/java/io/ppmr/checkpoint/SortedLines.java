package io.ppmr.checkpoint;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Set;

/**
 * Lines in the order of {@link String#compareTo}, each once, as many as fit a disk, by an external merge sort. Lines
 * beyond {@link #MEMORY_CHARS} are in files of the service, which {@link #close} removes. Owned by one thread. A
 * {@link Cursor} ends before this is closed.
 */
final class SortedLines implements Closeable {
    /** Maximum heap of one sorter's lines, in characters. */
    static final int MEMORY_CHARS = 1 << 20;
    /** Maximum length of a line. UTF-8 needs at most three bytes for a character, and two bytes encode their number. */
    static final int MAX_LINE_CHARS = 16_384;

    /** A line's share of the memory in addition to its characters: the string, its array, its place in a list. */
    private static final int LINE_OVERHEAD_CHARS = 64;

    private static final FileAttribute<Set<PosixFilePermission>> SERVICE_ALONE =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

    private final List<String> memory;
    private final List<SortedFile> files;

    private SortedLines(List<String> memory, List<SortedFile> files) {
        this.memory = memory;
        this.files = files;
    }

    /** Opens the lines from the first one. */
    Cursor open() throws IOException {
        return open("");
    }

    /** Opens the lines from this text in their order. Most of the earlier lines are not read. */
    Cursor open(String from) throws IOException {
        return new Cursor(memory, files, from);
    }

    @Override
    public void close() throws IOException {
        for (SortedFile file : files) {
            Files.deleteIfExists(file.path());
        }
    }

    /**
     * A position in a file.
     *
     * @param beginning beginning of the line at that position
     * @param offset offset in bytes
     */
    private record Mark(String beginning, long offset) {}

    /** A file of lines in their order. Its marks allow to skip its first lines. */
    private record SortedFile(Path path, List<Mark> marks) {
        InputStream open(String from) throws IOException {
            long offset = 0;
            for (Mark mark : marks) {
                // The line is behind its beginning, and may be behind a text with the same beginning.
                if (mark.beginning().compareTo(from) < 0 && !from.startsWith(mark.beginning())) {
                    offset = mark.offset();
                }
            }
            return Channels.newInputStream(Files.newByteChannel(path).position(offset));
        }
    }

    /** Writes a new file that only the service can read, because it lists a user's open files. Owned by one thread. */
    private static final class FileWriter implements Closeable {
        private static final int MARK_BYTES = 1 << 16;
        private static final int MARK_CHARS = 64;

        private final SortedFile file;
        private final DataOutputStream out;
        private long offset;
        private long nextMark = MARK_BYTES;

        FileWriter(Path path) throws IOException {
            this.file = new SortedFile(path, new ArrayList<>());
            this.out = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(Files.newByteChannel(
                    path, Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW), SERVICE_ALONE))));
        }

        /** Writes a line as a whole. {@code writeUTF} would read each character, but the job is stopped during this. */
        void write(String line) throws IOException {
            if (offset >= nextMark) {
                file.marks().add(new Mark(line.substring(0, Math.min(MARK_CHARS, line.length())), offset));
                nextMark = offset + MARK_BYTES;
            }
            byte[] bytes = line.getBytes(StandardCharsets.UTF_8);
            out.writeShort(bytes.length);
            out.write(bytes);
            offset += Short.BYTES + bytes.length;
        }

        SortedFile file() {
            return file;
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }

    /** Sorts lines that come in any order. Owned by one thread. */
    static final class Sorter implements Closeable {
        private final Path directory;
        private final String name;
        private final int memoryChars;
        private final List<SortedFile> files = new ArrayList<>();
        private List<String> memory = new ArrayList<>();
        private int chars;
        private boolean handedOver;

        /**
         * @param directory a folder of the service for lines beyond the memory; made if missing
         *
         * @param name beginning of the files' names
         * @param memoryChars number of characters that stay on the heap
         */
        Sorter(Path directory, String name, int memoryChars) {
            this.directory = directory;
            this.name = name;
            this.memoryChars = memoryChars;
        }

        /** Adds a line of at most {@link #MAX_LINE_CHARS}. */
        void add(String line) throws IOException {
            memory.add(line);
            chars += line.length() + LINE_OVERHEAD_CHARS;
            if (chars > memoryChars) {
                spill();
            }
        }

        /** Returns all lines in order. The result owns the files from then on, and no line may be added. */
        SortedLines sorted() {
            memory.sort(Comparator.naturalOrder());
            handedOver = true;
            return new SortedLines(memory, files);
        }

        private void spill() throws IOException {
            memory.sort(Comparator.naturalOrder());
            WorkDirectories.passage(directory);
            try (FileWriter out = new FileWriter(directory.resolve(name + "." + files.size()))) {
                files.add(out.file());
                for (String line : memory) {
                    out.write(line);
                }
            }
            memory = new ArrayList<>();
            chars = 0;
        }

        /** Removes the files that were not handed over. */
        @Override
        public void close() throws IOException {
            if (!handedOver) {
                new SortedLines(List.of(), files).close();
            }
        }
    }

    /** Writes lines that come in order into one file. Owned by one thread. */
    static final class Appender implements Closeable {
        private final FileWriter out;
        private String last = "";
        private boolean handedOver;

        /** @param directory a folder of the service; made if missing */
        Appender(Path directory, String name) throws IOException {
            WorkDirectories.passage(directory);
            this.out = new FileWriter(directory.resolve(name));
        }

        /**
         * Adds the next line of at most {@link #MAX_LINE_CHARS}.
         *
         * @throws IllegalArgumentException if it does not follow the previous line in the order
         */
        void add(String line) throws IOException {
            if (line.compareTo(last) <= 0) {
                throw new IllegalArgumentException("it does not come after '" + last + "'");
            }
            last = line;
            out.write(line);
        }

        /** Returns all lines. The result owns the file from then on, and no line may be added. */
        SortedLines sorted() throws IOException {
            out.close();
            handedOver = true;
            return new SortedLines(List.of(), List.of(out.file()));
        }

        @Override
        public void close() throws IOException {
            if (!handedOver) {
                out.close();
                Files.deleteIfExists(out.file().path());
            }
        }
    }

    /** Reads the lines one after the other. Owned by one thread. */
    static final class Cursor implements Closeable {
        private final PriorityQueue<Run> runs = new PriorityQueue<>(Comparator.comparing(Run::line));
        private final List<DataInputStream> inputs = new ArrayList<>();
        private byte[] bytes = new byte[512];
        private String last;

        private Cursor(List<String> memory, List<SortedFile> files, String from) throws IOException {
            try {
                int found = Collections.binarySearch(memory, from);
                int[] next = {found < 0 ? -found - 1 : found};
                add(new Run(() -> next[0] < memory.size() ? memory.get(next[0]++) : null));
                for (SortedFile file : files) {
                    DataInputStream in = new DataInputStream(new BufferedInputStream(file.open(from)));
                    inputs.add(in);
                    Run run = new Run(() -> readLine(in));
                    while (run.advance()) {
                        if (run.line().compareTo(from) >= 0) {
                            runs.add(run);
                            break;
                        }
                    }
                }
            } catch (IOException e) {
                close();
                throw e;
            }
        }

        /** Returns the next line, or null behind the last one. */
        String next() throws IOException {
            String line;
            do {
                Run first = runs.poll();
                if (first == null) {
                    return null;
                }
                line = first.line();
                add(first);
            } while (line.equals(last));
            last = line;
            return line;
        }

        private void add(Run run) throws IOException {
            if (run.advance()) {
                runs.add(run);
            }
        }

        private String readLine(DataInputStream in) throws IOException {
            int high = in.read();
            if (high < 0) {
                return null;
            }
            int length = high << Byte.SIZE | in.readUnsignedByte();
            if (length > bytes.length) {
                bytes = new byte[Math.max(length, 2 * bytes.length)];
            }
            in.readFully(bytes, 0, length);
            return new String(bytes, 0, length, StandardCharsets.UTF_8);
        }

        @Override
        public void close() throws IOException {
            for (DataInputStream in : inputs) {
                in.close();
            }
        }
    }

    private interface Source {
        String next() throws IOException;
    }

    /** A sorted part of the lines. */
    private static final class Run {
        private final Source source;
        private String line;

        Run(Source source) {
            this.source = source;
        }

        String line() {
            return line;
        }

        boolean advance() throws IOException {
            line = source.next();
            return line != null;
        }
    }
}
