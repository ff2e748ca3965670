package io.ppmr.checkpoint;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SeekableByteChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Requires that only root can change a program that root runs. It checks the file, its interpreter or loader, and every
 * folder and link on their paths. A path that passed is not checked again. Owned by the thread that makes it.
 */
public final class RootsPrograms {
    private static final int MOST_LINKS = 40;
    /** A script's interpreter may be a script. execve(2) follows four. */
    private static final int MOST_INTERPRETERS = 5;

    private static final int TYPE = 0170000;
    private static final int LINK = 0120000;
    private static final int WRITE_OF_OTHERS = 022;
    private static final int LINE_BYTES = 256;

    // Offsets in the header of elf(5), of 64 bits.
    private static final int HEADER_BYTES = 64;
    private static final int CLASS = 4;
    private static final int CLASS_64 = 2;
    private static final int SEGMENTS_AT = 32;
    private static final int SEGMENT_BYTES_AT = 54;
    private static final int SEGMENTS_COUNT_AT = 56;
    private static final int SEGMENT_BYTES = 56;
    private static final int LOADER = 3;
    private static final int OFFSET_AT = 8;
    private static final int LENGTH_AT = 32;
    private static final int MOST_SEGMENTS = 64;
    private static final int MOST_PATH_BYTES = 4096;

    private final Set<Path> good = new HashSet<>();

    /**
     * Checks the programs, files and folders that a command names by absolute paths, and its first word as found in
     * PATH.
     *
     * @throws IOException that names the path that another user can change, and the remedy
     */
    public void requireCommand(List<String> words) throws IOException {
        Optional<Path> first = ToolKit.find(words.get(0));
        if (first.isPresent()) {
            requireProgram(first.get().toAbsolutePath());
        }
        for (Path named : ToolKit.filesNamedIn(words.subList(1, words.size()).stream()
                .filter(word -> word.contains("/"))
                .toList())) {
            requireProgram(named);
        }
    }

    /** Checks a file, and its interpreter or loader. */
    private void requireProgram(Path file) throws IOException {
        Path next = file;
        for (int interpreters = 0; interpreters <= MOST_INTERPRETERS; interpreters++) {
            require(next);
            Optional<Path> interpreter = Files.isRegularFile(next) ? interpreter(next) : Optional.empty();
            if (interpreter.isEmpty()) {
                return;
            }
            next = interpreter.get();
        }
        throw new IOException(file + " has too many interpreters in a chain. Remedy: name a program");
    }

    /** Checks a folder with everything in it, at any depth. A link in it without a target is ignored. */
    public void requireTree(Path folder) throws IOException {
        require(folder);
        try (Stream<Path> all = Files.walk(folder.toRealPath())) {
            for (Path one : (Iterable<Path>) all::iterator) {
                if (Files.exists(one)) {
                    require(one);
                }
            }
        }
    }

    /**
     * Checks the folders of a list, such as PATH, in which root finds programs by their names.
     *
     * @param list folders with colons between them; missing ones are ignored
     */
    public void requireFolders(String list) throws IOException {
        for (String folder : list.split(":", -1)) {
            Path path = Path.of(folder.isEmpty() ? "." : folder).toAbsolutePath();
            if (Files.isDirectory(path)) {
                require(path);
            }
        }
    }

    /** Checks a file or folder, and all folders and links on its path. */
    public void require(Path path) throws IOException {
        Deque<Path> names = new ArrayDeque<>();
        path.toAbsolutePath().forEach(names::add);
        Path at = Path.of("/");
        requireRoots(at, path);
        for (int links = 0; !names.isEmpty(); ) {
            String name = names.remove().toString();
            if (name.equals("..")) {
                at = at.getParent() == null ? at : at.getParent();
            } else if (!name.isEmpty() && !name.equals(".")) {
                Path next = at.resolve(name);
                if (!requireRoots(next, path)) {
                    at = next;
                    continue;
                }
                if (++links > MOST_LINKS) {
                    throw new IOException(path + " leads through too many links. Remedy: name the file itself");
                }
                Path target = Files.readSymbolicLink(next);
                at = target.isAbsolute() ? Path.of("/") : at;
                List<Path> further = new ArrayList<>();
                target.forEach(further::add);
                for (int i = further.size() - 1; i >= 0; i--) {
                    names.addFirst(further.get(i));
                }
            }
        }
    }

    /** Returns true for a link, because only its folder decides who can change it. */
    private boolean requireRoots(Path one, Path reached) throws IOException {
        if (good.contains(one)) {
            return false;
        }
        Map<String, Object> found;
        try {
            found = Files.readAttributes(one, "unix:uid,mode", LinkOption.NOFOLLOW_LINKS);
        } catch (NoSuchFileException missing) {
            throw new IOException(
                    reached + " is missing (" + one + "). Remedy: install it, or correct its name", missing);
        }
        int mode = (int) found.get("mode");
        boolean link = (mode & TYPE) == LINK;
        String by = one.equals(reached) ? "" : ", which leads to " + reached + ",";
        if (!found.get("uid").equals(0)) {
            throw new IOException(one + by + " belongs to user " + found.get("uid")
                    + ", which could make root run anything. Remedy: chown root " + one + ", or name another program");
        }
        if (!link && (mode & WRITE_OF_OTHERS) != 0) {
            throw new IOException(
                    one + by + " can be written by other users than root, which could make root run anything."
                            + " Remedy: chmod go-w " + one + ", or name another program");
        }
        if (!link) {
            good.add(one);
        }
        return link;
    }

    /** Returns a script's interpreter, or a program's loader; execve(2). */
    private static Optional<Path> interpreter(Path file) throws IOException {
        byte[] head;
        try (InputStream in = Files.newInputStream(file)) {
            head = in.readNBytes(LINE_BYTES);
        }
        String text = new String(head, StandardCharsets.ISO_8859_1);
        if (text.startsWith("#!")) {
            String[] words =
                    text.lines().findFirst().orElse("").substring(2).strip().split("[ \t]+", 0);
            // env(1) finds the program that is named behind it.
            boolean named = words.length > 1 && words[0].endsWith("/env") && !words[1].startsWith("-");
            return named
                    ? ToolKit.find(words[1]).map(Path::toAbsolutePath)
                    : Optional.of(words[0]).filter(word -> word.startsWith("/")).map(Path::of);
        }
        return text.startsWith("\177ELF") && head.length > CLASS && head[CLASS] == CLASS_64
                ? loader(file)
                : Optional.empty();
    }

    private static Optional<Path> loader(Path file) throws IOException {
        try (SeekableByteChannel program = Files.newByteChannel(file)) {
            ByteBuffer header = read(program, 0, HEADER_BYTES);
            long at = header.getLong(SEGMENTS_AT);
            int count = Math.min(MOST_SEGMENTS, Short.toUnsignedInt(header.getShort(SEGMENTS_COUNT_AT)));
            if (header.getShort(SEGMENT_BYTES_AT) != SEGMENT_BYTES) {
                return Optional.empty();
            }
            for (int i = 0; i < count; i++) {
                ByteBuffer segment = read(program, at + (long) i * SEGMENT_BYTES, SEGMENT_BYTES);
                long length = segment.getLong(LENGTH_AT);
                if (segment.getInt(0) == LOADER && length > 1 && length <= MOST_PATH_BYTES) {
                    byte[] path = read(program, segment.getLong(OFFSET_AT), (int) length)
                            .array();
                    return Optional.of(Path.of(new String(path, 0, path.length - 1, StandardCharsets.UTF_8)));
                }
            }
            return Optional.empty();
        }
    }

    private static ByteBuffer read(SeekableByteChannel from, long at, int bytes) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder());
        from.position(at);
        while (buffer.hasRemaining()) {
            if (from.read(buffer) < 0) {
                throw new IOException("a program is cut off in its header");
            }
        }
        return buffer;
    }
}
