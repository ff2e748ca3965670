package io.ppmr.checkpoint;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Set;

/**
 * Lines in the order of {@link String#compareTo}, each once, as many as a disk holds: an external merge sort. What
 * exceeds {@link #MEMORY_CHARS} lies in files of the service's own, which {@link #close} removes. Owned by one thread;
 * a {@link Cursor} ends before this is closed.
 */
final class SortedLines implements Closeable {
    /** The heap that the lines of one sorter take at most, in characters. */
    static final int MEMORY_CHARS = 1 << 20;
    /** The longest line: {@link DataOutputStream#writeUTF} takes three bytes for a character at most. */
    static final int MAX_LINE_CHARS = 16_384;

    /** A line's share of the memory beside its characters: the string, its array, its place in a list. */
    private static final int LINE_OVERHEAD_CHARS = 64;

    private static final FileAttribute<Set<PosixFilePermission>> SERVICE_ALONE =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

    private final List<String> memory;
    private final List<Path> files;

    private SortedLines(List<String> memory, List<Path> files) {
        this.memory = memory;
        this.files = files;
    }

    /** Returns the lines from the first one on. */
    Cursor open() throws IOException {
        return new Cursor(memory, files);
    }

    @Override
    public void close() throws IOException {
        for (Path file : files) {
            Files.deleteIfExists(file);
        }
    }

    /** Sorts lines that come in any order. Owned by one thread. */
    static final class Sorter implements Closeable {
        private final Path directory;
        private final String name;
        private final int memoryChars;
        private final List<Path> files = new ArrayList<>();
        private List<String> memory = new ArrayList<>();
        private int chars;
        private boolean handedOver;

        /**
         * @param directory a folder of the service's own for what exceeds the memory; made if missing
         * @param name the files' names begin so
         * @param memoryChars how many characters stay on the heap
         */
        Sorter(Path directory, String name, int memoryChars) {
            this.directory = directory;
            this.name = name;
            this.memoryChars = memoryChars;
        }

        /** Takes a line of {@link #MAX_LINE_CHARS} at most. */
        void add(String line) throws IOException {
            memory.add(line);
            chars += line.length() + LINE_OVERHEAD_CHARS;
            if (chars > memoryChars) {
                spill();
            }
        }

        /** Returns all of them in order; the files are its own from then on, and nothing may be added. */
        SortedLines sorted() {
            memory.sort(Comparator.naturalOrder());
            handedOver = true;
            return new SortedLines(memory, files);
        }

        private void spill() throws IOException {
            memory.sort(Comparator.naturalOrder());
            WorkDirectories.passage(directory);
            Path file = directory.resolve(name + "." + files.size());
            files.add(file);
            try (DataOutputStream out = output(file)) {
                for (String line : memory) {
                    out.writeUTF(line);
                }
            }
            memory = new ArrayList<>();
            chars = 0;
        }

        /** Removes what was not handed over. */
        @Override
        public void close() throws IOException {
            if (!handedOver) {
                new SortedLines(List.of(), files).close();
            }
        }
    }

    /** Writes lines that come in order into one file. Owned by one thread. */
    static final class Appender implements Closeable {
        private final Path file;
        private final DataOutputStream out;
        private String last = "";
        private boolean handedOver;

        /** @param directory a folder of the service's own; made if missing */
        Appender(Path directory, String name) throws IOException {
            WorkDirectories.passage(directory);
            this.file = directory.resolve(name);
            this.out = output(file);
        }

        /**
         * Takes the next line of {@link #MAX_LINE_CHARS} at most.
         *
         * @throws IllegalArgumentException if it does not come after the one before
         */
        void add(String line) throws IOException {
            if (line.compareTo(last) <= 0) {
                throw new IllegalArgumentException("it does not come after '" + last + "'");
            }
            last = line;
            out.writeUTF(line);
        }

        /** Returns all of them; the file is its own from then on, and nothing may be added. */
        SortedLines sorted() throws IOException {
            out.close();
            handedOver = true;
            return new SortedLines(List.of(), List.of(file));
        }

        @Override
        public void close() throws IOException {
            if (!handedOver) {
                out.close();
                Files.deleteIfExists(file);
            }
        }
    }

    /** A new file that only the service can read: it says what a user's job has open. */
    private static DataOutputStream output(Path file) throws IOException {
        return new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(Files.newByteChannel(
                file, Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW), SERVICE_ALONE))));
    }

    /** Reads the lines one after the other. Owned by one thread. */
    static final class Cursor implements Closeable {
        private final PriorityQueue<Run> runs = new PriorityQueue<>(Comparator.comparing(Run::line));
        private final List<DataInputStream> inputs = new ArrayList<>();
        private String last;

        private Cursor(List<String> memory, List<Path> files) throws IOException {
            try {
                int[] next = {0};
                add(new Run(() -> next[0] < memory.size() ? memory.get(next[0]++) : null));
                for (Path file : files) {
                    DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file)));
                    inputs.add(in);
                    add(new Run(() -> readLine(in)));
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

        private static String readLine(DataInputStream in) throws IOException {
            try {
                return in.readUTF();
            } catch (EOFException e) {
                return null;
            }
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

    /** A part of the lines that is sorted in itself. */
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
