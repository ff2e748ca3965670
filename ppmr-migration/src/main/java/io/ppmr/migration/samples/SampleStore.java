package io.ppmr.migration.samples;

import io.ppmr.linux.Folders;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The samples of a journal's migrations: a file for each, in a folder beside the journal that only its owner may read.
 * A file has at most 64 KiB, all together have at most 16 MiB, and the oldest ones are removed first. Any thread; each
 * service has its own journal, and so its own store.
 */
public final class SampleStore {
    private static final String FOLDER = "samples";
    private static final String ENDING = ".samples";
    private static final String NEW_ENDING = ".new";
    private static final long MAX_ALL_BYTES = 16L << 20;
    /** The names that services give to migrations. Nothing else may become part of a path. */
    private static final Pattern ID = Pattern.compile("[A-Za-z0-9_-]{1,64}");

    private record KeptFile(Path path, FileTime changed, long bytes) {}

    private final Path folder;
    private final long maxAllBytes;

    /** @param journal the journal's folder */
    public SampleStore(Path journal) {
        this(journal, MAX_ALL_BYTES);
    }

    /** @param maxAllBytes maximum size of all files together */
    SampleStore(Path journal, long maxAllBytes) {
        this.folder = journal.resolve(FOLDER);
        this.maxAllBytes = maxAllBytes;
    }

    /**
     * Keeps the samples of a migration, in place of earlier ones of it.
     *
     * @throws IOException they could not be written, for example because the disk is full; nothing of them is left
     */
    public void save(String id, MigrationSamples samples) throws IOException {
        requireName(id);
        Folders.create(folder, Folders.PRIVATE);
        byte[] encoded = SampleCodec.encode(samples);
        // Room is made first, so that the limit holds at each moment.
        prune(maxAllBytes - encoded.length);
        Path fresh = folder.resolve(id + NEW_ENDING);
        try {
            Files.deleteIfExists(fresh);
            Files.write(fresh, encoded);
            Files.move(
                    fresh,
                    folder.resolve(id + ENDING),
                    StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
            Files.deleteIfExists(fresh);
            throw e;
        }
    }

    /**
     * Returns the samples of a migration, or empty if there are none.
     *
     * @throws IOException the file is there and cannot be read, or is damaged
     */
    public Optional<MigrationSamples> find(String id) throws IOException {
        requireName(id);
        Path file = folder.resolve(id + ENDING);
        if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
            return Optional.empty();
        }
        try (InputStream in = Files.newInputStream(file, LinkOption.NOFOLLOW_LINKS)) {
            byte[] encoded = in.readNBytes(SampleCodec.MAX_FILE_BYTES + 1);
            if (encoded.length > SampleCodec.MAX_FILE_BYTES) {
                throw new IOException("it is larger than " + SampleCodec.MAX_FILE_BYTES + " bytes");
            }
            return Optional.of(SampleCodec.decode(encoded));
        } catch (IOException e) {
            throw new IOException("the samples in " + file + " cannot be read: " + e.getMessage(), e);
        }
    }

    private static void requireName(String id) {
        if (!ID.matcher(id).matches()) {
            throw new IllegalArgumentException("not the name of a migration: " + id);
        }
    }

    /** Removes the oldest files until the others have at most this size, and what a killed service left. */
    private void prune(long mostBytes) throws IOException {
        List<KeptFile> kept = new ArrayList<>();
        long allBytes = 0;
        try (Stream<Path> files = Files.list(folder)) {
            for (Path path : files.toList()) {
                if (path.toString().endsWith(NEW_ENDING)) {
                    Files.deleteIfExists(path);
                } else {
                    KeptFile file = new KeptFile(
                            path, Files.getLastModifiedTime(path, LinkOption.NOFOLLOW_LINKS), Files.size(path));
                    kept.add(file);
                    allBytes += file.bytes();
                }
            }
        }
        kept.sort(Comparator.comparing(KeptFile::changed)
                .thenComparing(file -> file.path().getFileName().toString()));
        for (KeptFile oldest : kept) {
            if (allBytes <= mostBytes) {
                return;
            }
            Files.deleteIfExists(oldest.path());
            allBytes -= oldest.bytes();
        }
    }
}
