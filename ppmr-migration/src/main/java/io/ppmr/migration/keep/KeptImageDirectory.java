package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.keep.ImageManifest.ManifestEntry;
import io.ppmr.migration.keep.KeptImageWriter.Block;
import io.ppmr.source.image.ImageName;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files of one copy. First they have numbers in {@code NAME.partial}, then their names, and in the end they are in
 * {@code NAME}. Until then everything belongs to the service, so that no user can redirect its writes by a link. Owned
 * by the copy's thread.
 */
final class KeptImageDirectory {
    /** The suffix of an unfinished copy's name. */
    static final String PARTIAL = ".partial";

    private static final Logger LOG = LoggerFactory.getLogger(KeptImageDirectory.class);
    private static final String DATA = "data";
    private static final int MOST_OPEN = 64;
    private static final int READ_BYTES = 1 << 20;
    private static final int STICKY = 01000;
    private static final String OWNER_ONLY = "rwx------";

    private final Path parent;
    private final Path partial;
    private final Path wanted;
    private final KeptImageNote note;
    private final PeerAuthenticator key;
    private final Map<KeptImageFile, Boolean> open = new LinkedHashMap<>(16, 0.75f, true);
    private boolean made;

    /**
     * @param parent directory of the copies; must exist
     *
     * @param name name of this copy
     * @param note note of the incomplete copy
     * @param key key that authenticates the manifest
     */
    KeptImageDirectory(Path parent, String name, KeptImageNote note, PeerAuthenticator key) {
        this.note = note;
        this.key = key;
        this.parent = parent;
        this.partial = parent.resolve(name + PARTIAL);
        this.wanted = parent.resolve(name);
    }

    /** Returns the directory of the incomplete copy. */
    Path partial() {
        return partial;
    }

    /** Returns the directory of the complete copy. */
    Path wanted() {
        return wanted;
    }

    void make() throws IOException {
        requireSafe();
        note.write(partial);
        Files.createDirectory(partial, ownerOnly());
        made = true;
        Files.createDirectory(partial.resolve(DATA), ownerOnly());
    }

    private static java.nio.file.attribute.FileAttribute<Set<PosixFilePermission>> ownerOnly() {
        return PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(OWNER_ONLY));
    }

    /**
     * Requires a parent in which no other user can change names. Otherwise they could redirect the service's writes.
     */
    private void requireSafe() throws IOException {
        if (!Files.isDirectory(parent)) {
            throw new IOException(parent + " is no directory: make it, or mount its filesystem");
        }
        int mode = (int) Files.getAttribute(parent, "unix:mode");
        Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(parent);
        boolean others = permissions.contains(PosixFilePermission.GROUP_WRITE)
                || permissions.contains(PosixFilePermission.OTHERS_WRITE);
        int owner = (int) Files.getAttribute(parent, "unix:uid");
        int own = (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        if (owner != 0 && owner != own) {
            throw new IOException(parent + " belongs to user " + owner + ": give it to root");
        }
        if (others && (mode & STICKY) == 0) {
            throw new IOException(parent + " can be written by others: chmod go-w " + parent);
        }
    }

    void apply(Block block) throws IOException {
        KeptImageFile file = block.file();
        file.apply(block, partial.resolve(DATA));
        open.put(file, true);
        if (open.size() > MOST_OPEN) {
            Iterator<KeptImageFile> oldest = open.keySet().iterator();
            KeptImageFile idle = oldest.next();
            oldest.remove();
            idle.close();
        }
    }

    /**
     * Completes the copy: names, owners and the manifest, all of them on the disk.
     *
     * @param going checked between files, or false if the copy is no longer needed
     */
    ImageManifest finish(ImageManifest known, List<ImageName> names, BooleanSupplier going) throws IOException {
        Path data = partial.resolve(DATA);
        ByteBuffer buffer = ByteBuffer.allocate(READ_BYTES);
        List<ManifestEntry> entries = new ArrayList<>();
        for (ImageName name : names) {
            if (!going.getAsBoolean()) {
                throw new IOException("the copy is no longer needed");
            }
            Path path = partial.resolve(name.path());
            switch (name.kind()) {
                case DIRECTORY -> {
                    Files.createDirectory(path, ownerOnly());
                    entries.add(new ManifestEntry(name.kind(), name.path(), 0, 0, ""));
                }
                case SYMLINK -> {
                    Files.createSymbolicLink(path, Path.of(name.linkTarget()));
                    entries.add(new ManifestEntry(name.kind(), name.path(), 0, 0, name.linkTarget()));
                }
                case FILE -> {
                    KeptImageFile file = (KeptImageFile) name.copy();
                    int crc32c = file.finish(data, name.sizeBytes(), buffer);
                    open.remove(file);
                    file.moveTo(path);
                    entries.add(new ManifestEntry(name.kind(), name.path(), name.sizeBytes(), crc32c, ""));
                }
            }
        }
        closeAll();
        WorkDirectories.remove(data);
        own(names, known.user());
        ImageManifest manifest = new ImageManifest(
                known.version(),
                known.job(),
                known.checkpointer(),
                known.user(),
                known.migrationId(),
                known.attempt(),
                known.writtenEpochMs(),
                known.node(),
                known.originals(),
                entries);
        String text = manifest.text();
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length > ImageManifest.MAX_BYTES) {
            throw new IOException("the image has " + entries.size() + " names, more than a manifest can have");
        }
        writeSynced(partial.resolve(ImageManifest.FILE_NAME), text);
        writeSynced(partial.resolve(ImageManifest.DIGEST_FILE_NAME), ImageManifest.digest(key, bytes));
        for (ImageName name : names) {
            if (name.kind() == ImageName.NameKind.DIRECTORY) {
                sync(partial.resolve(name.path()));
            }
        }
        // The job's user runs the restarts, and can reach the directory of its rank.
        Files.setPosixFilePermissions(partial, PosixFilePermissions.fromString("rwx--x--x"));
        sync(partial);
        return manifest;
    }

    /**
     * Gives each file to the user that made it, the job's user or root. No user can then change an image that root's
     * checkpointer reads.
     */
    private void own(List<ImageName> names, JobUser user) throws IOException {
        for (int i = names.size() - 1; i >= 0; i--) {
            ImageName name = names.get(i);
            boolean users = name.kind() == ImageName.NameKind.DIRECTORY
                    ? names.stream()
                            .anyMatch(inside -> inside.kind() != ImageName.NameKind.DIRECTORY
                                    && inside.uid() == user.uid()
                                    && inside.path().startsWith(name.path() + "/"))
                    : name.uid() == user.uid();
            Path path = partial.resolve(name.path());
            if (users && user.uid() != (int) Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS)) {
                Files.setAttribute(path, "unix:gid", user.gid(), LinkOption.NOFOLLOW_LINKS);
                Files.setAttribute(path, "unix:uid", user.uid(), LinkOption.NOFOLLOW_LINKS);
            }
        }
    }

    private static void writeSynced(Path file, String text) throws IOException {
        try (FileChannel channel = FileChannel.open(
                file,
                Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")))) {
            ByteBuffer bytes = StandardCharsets.UTF_8.encode(text);
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
    }

    private static void sync(Path directory) throws IOException {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    /** Gives the copy its final name. From now on it can be restarted. */
    void giveName() throws IOException {
        Files.move(partial, wanted, StandardCopyOption.ATOMIC_MOVE);
        note.forget();
        sync(parent);
    }

    /** Removes an incomplete copy. */
    void remove() {
        try {
            closeAll();
            if (made) {
                WorkDirectories.remove(partial);
            }
            note.forget();
        } catch (IOException e) {
            LOG.warn("incomplete copy {} could not be removed: {}; remove it by hand", partial, e.getMessage());
        }
    }

    private void closeAll() throws IOException {
        for (KeptImageFile file : open.keySet()) {
            file.close();
        }
        open.clear();
    }
}
