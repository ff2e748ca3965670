package io.ppmr.fuse;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/** Makes ordinary system calls on files below a directory. Runs in a {@link ClientProcess}, never beside the mount. */
final class MountDriver implements FilesystemDriver {
    private static final Map<Character, OpenOption> OPTIONS = Map.of(
            'r', StandardOpenOption.READ,
            'w', StandardOpenOption.WRITE,
            'c', StandardOpenOption.CREATE,
            'x', StandardOpenOption.CREATE_NEW,
            't', StandardOpenOption.TRUNCATE_EXISTING);
    private static final Map<String, String> ERRNO_OF_TEXT = Map.of(
            "Input/output error", "EIO",
            "Transport endpoint is not connected", "ENOTCONN",
            "Software caused connection abort", "ECONNABORTED",
            "Operation not permitted", "EPERM",
            "Is a directory", "EISDIR",
            "Not a directory", "ENOTDIR",
            "Invalid argument", "EINVAL",
            "No such file or directory", "ENOENT");

    private final Path root;
    private final Map<Integer, FileChannel> files = new ConcurrentHashMap<>();
    private final AtomicInteger nextFile = new AtomicInteger(3);

    MountDriver(Path root) {
        this.root = root;
    }

    private interface Call<T> {
        T run() throws IOException;
    }

    private static <T> T call(Call<T> call) throws Failure {
        try {
            return call.run();
        } catch (IOException e) {
            throw new Failure(errnoOf(e), e.toString());
        }
    }

    private static String errnoOf(IOException failure) {
        if (failure instanceof NoSuchFileException) {
            return "ENOENT";
        }
        if (failure instanceof FileAlreadyExistsException) {
            return "EEXIST";
        }
        if (failure instanceof DirectoryNotEmptyException) {
            return "ENOTEMPTY";
        }
        if (failure instanceof AccessDeniedException) {
            return "EACCES";
        }
        String text = failure instanceof FileSystemException named ? named.getReason() : failure.getMessage();
        return text == null ? "unknown" : ERRNO_OF_TEXT.getOrDefault(text, text);
    }

    private Path at(String path) {
        return root.resolve(path.substring(1));
    }

    @Override
    public int open(String path, String how) throws IOException {
        Set<OpenOption> options = new HashSet<>();
        how.chars().forEach(letter -> options.add(OPTIONS.get((char) letter)));
        int file = nextFile.getAndIncrement();
        files.put(file, call(() -> FileChannel.open(at(path), options)));
        return file;
    }

    @Override
    public void close(int file) throws IOException {
        FileChannel channel = files.remove(file);
        call(() -> {
            channel.close();
            return true;
        });
    }

    @Override
    public int write(int file, byte[] data, long offset) throws IOException {
        return call(() -> files.get(file).write(ByteBuffer.wrap(data), offset));
    }

    @Override
    public byte[] read(int file, int length, long offset) throws IOException {
        ByteBuffer data = ByteBuffer.allocate(length);
        call(() -> files.get(file).read(data, offset));
        return Arrays.copyOf(data.array(), data.position());
    }

    @Override
    public void fsync(int file) throws IOException {
        call(() -> {
            files.get(file).force(true);
            return true;
        });
    }

    @Override
    public long size(int file) throws IOException {
        return call(() -> files.get(file).size());
    }

    @Override
    public void truncate(int file, long sizeBytes) throws IOException {
        call(() -> files.get(file).truncate(sizeBytes));
    }

    @Override
    public Stat stat(String path) throws IOException {
        Map<String, Object> found = call(() -> Files.readAttributes(at(path), "unix:*", LinkOption.NOFOLLOW_LINKS));
        return new Stat(
                (Integer) found.get("mode"),
                (Integer) found.get("uid"),
                (Long) found.get("size"),
                ((FileTime) found.get("lastModifiedTime")).to(TimeUnit.SECONDS));
    }

    @Override
    public List<String> list(String path) throws IOException {
        return call(() -> {
            try (Stream<Path> names = Files.list(at(path))) {
                return new ArrayList<>(
                        names.map(name -> name.getFileName().toString()).toList());
            }
        });
    }

    @Override
    public void makeDirectory(String path) throws IOException {
        call(() -> Files.createDirectory(at(path)));
    }

    @Override
    public void delete(String path) throws IOException {
        call(() -> {
            Files.delete(at(path));
            return true;
        });
    }

    @Override
    public void rename(String from, String to) throws IOException {
        call(() -> Files.move(at(from), at(to), StandardCopyOption.ATOMIC_MOVE));
    }

    @Override
    public void symlink(String target, String path) throws IOException {
        call(() -> Files.createSymbolicLink(at(path), Path.of(target)));
    }

    @Override
    public String readLink(String path) throws IOException {
        return call(() -> Files.readSymbolicLink(at(path))).toString();
    }

    @Override
    public void changeMode(String path, int permissions) throws IOException {
        call(() -> Files.setAttribute(at(path), "unix:mode", permissions));
    }

    @Override
    public void changeModificationTime(String path, long epochS) throws IOException {
        call(() -> Files.setLastModifiedTime(at(path), FileTime.from(epochS, TimeUnit.SECONDS)));
    }

    @Override
    public long capacityBytes() throws IOException {
        return call(() -> Files.getFileStore(root).getTotalSpace());
    }

    @Override
    public void close() throws IOException {
        for (FileChannel channel : files.values()) {
            channel.close();
        }
        files.clear();
    }
}
