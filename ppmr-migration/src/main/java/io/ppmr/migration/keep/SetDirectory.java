package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.Folders;
import io.ppmr.migration.RequestException;
import io.ppmr.source.image.ImageName.NameKind;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/**
 * The images of a job's sets, in a directory that belongs to root: {@code DIRECTORY/UID/JOB/SET/POD/}. Several nodes
 * may share the directory. An image grows under {@code POD.partial}, and gets its name when all of it is on the disk.
 * Immutable.
 *
 * @param directory the directory of checkpoints, of the pods' template
 * @param uid the job's user
 * @param job the job's name
 */
public record SetDirectory(Path directory, int uid, String job) {
    private static final String PARTIAL = ".partial";
    private static final int READ_BYTES = 1 << 20;
    private static final int DIGEST_BYTES = 12;
    private static final String OWNER_ONLY = "rw-------";
    private static final int OTHERS_MAY_WRITE = 022;

    /** Returns the directory of the job's sets. */
    private Path sets() {
        return directory.resolve(Integer.toUnsignedString(uid)).resolve(job);
    }

    private Path set(String id) {
        return sets().resolve(id);
    }

    /** Returns the directory of a whole image. */
    public Path image(String set, String pod) {
        return set(set).resolve(pod);
    }

    /** Returns the directory of an image that is being written. */
    public Path partial(String set, String pod) {
        return set(set).resolve(pod + PARTIAL);
    }

    /** Requires a directory in which no other user than root can change names. */
    public void requireSafe() throws IOException, RequestException {
        if (!Files.isDirectory(directory)) {
            throw new RequestException("the directory of checkpoints " + directory
                    + " is no directory on this node. Remedy: make it, or mount its filesystem");
        }
        Optional<WorkDirectories.Changeable> changeable = WorkDirectories.changeable(directory);
        if (changeable.isPresent()) {
            throw new RequestException("the directory of checkpoints " + directory + ": "
                    + changeable.get().directory() + " " + changeable.get().reason()
                    + ", who could exchange images. Remedy: give it to root, and chmod go-w");
        }
        // A sticky directory lets others make names, such as those of other users' jobs.
        int mode = (int) Files.getAttribute(directory, "unix:mode");
        if ((mode & OTHERS_MAY_WRITE) != 0) {
            throw new RequestException(
                    "the directory of checkpoints " + directory + " can be written by others, who could make the"
                            + " directories of other users' jobs. Remedy: make a directory in it that belongs to"
                            + " root, with mode 0700, and name that");
        }
    }

    /** Returns the free space in bytes. */
    public long freeBytes() throws IOException {
        return Files.getFileStore(directory).getUsableSpace();
    }

    /** Makes the directory in which a pod's image grows. Nothing of an earlier try stays in it. */
    public Path begin(String set, String pod) throws IOException {
        Path partial = partial(set, pod);
        // The names of users' jobs and pods are private, too.
        for (Path folder : List.of(sets().getParent(), sets(), set(set))) {
            Folders.create(folder, Folders.PRIVATE);
            requireOwn(folder);
        }
        WorkDirectories.remove(partial);
        Files.createDirectory(
                partial, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        return partial;
    }

    /** Requires a directory that another node's service, or this one, has made. */
    private static void requireOwn(Path folder) throws IOException {
        Map<String, Object> found = Files.readAttributes(folder, "unix:uid,mode", LinkOption.NOFOLLOW_LINKS);
        boolean isDirectory = Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS);
        int owner = (int) found.get("uid");
        boolean isOwn = owner == 0 || owner == JobUser.ofService().uid();
        if (!isDirectory || !isOwn || ((int) found.get("mode") & OTHERS_MAY_WRITE) != 0) {
            throw new IOException(folder + " is not a directory of root that others cannot write, so images in it could"
                    + " be exchanged. Remedy: find out who made it, and remove it");
        }
    }

    /**
     * Completes an image: syncs all of its files, writes its manifest and that one's digest, and gives it its name.
     *
     * @param known the manifest without its entries
     * @param calledOff checked repeatedly; returns true if the image is not needed, which is an error
     * @return size and digest of the image
     */
    public WrittenImage end(
            String set, String pod, ImageManifest known, PeerAuthenticator key, BooleanSupplier calledOff)
            throws IOException {
        Path partial = partial(set, pod);
        List<ImageManifest.ManifestEntry> entries = new ArrayList<>();
        List<Path> directories = new ArrayList<>();
        ByteBuffer buffer = ByteBuffer.allocate(READ_BYTES);
        try (Stream<Path> inside = Files.walk(partial)) {
            for (Path path : (Iterable<Path>) inside.sorted()::iterator) {
                String name = partial.relativize(path).toString();
                if (Files.isSymbolicLink(path)) {
                    entries.add(new ImageManifest.ManifestEntry(
                            NameKind.SYMLINK,
                            name,
                            0,
                            0,
                            Files.readSymbolicLink(path).toString()));
                } else if (Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
                    directories.add(path);
                    if (!name.isEmpty()) {
                        entries.add(new ImageManifest.ManifestEntry(NameKind.DIRECTORY, name, 0, 0, ""));
                    }
                } else if (Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
                    entries.add(synced(path, name, buffer, calledOff));
                }
            }
        }
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
                entries,
                known.pod());
        byte[] text = manifest.text().getBytes(StandardCharsets.UTF_8);
        if (text.length > ImageManifest.MAX_BYTES) {
            throw new IOException("the manifest of the image of pod " + pod + " would have " + text.length
                    + " bytes, and no restart reads more than " + ImageManifest.MAX_BYTES
                    + ". Remedy: have the pod open fewer files, or files with shorter paths");
        }
        write(partial.resolve(ImageManifest.FILE_NAME), text);
        write(
                partial.resolve(ImageManifest.DIGEST_FILE_NAME),
                ImageManifest.digest(key, text).getBytes(StandardCharsets.US_ASCII));
        complete(set, pod, directories);
        return new WrittenImage(manifest.totalBytes(), digest(text));
    }

    /**
     * A whole image.
     *
     * @param bytes the size of its files
     * @param digest a digest of its manifest
     */
    public record WrittenImage(long bytes, String digest) {}

    private static ImageManifest.ManifestEntry synced(
            Path file, String name, ByteBuffer buffer, BooleanSupplier calledOff) throws IOException {
        requireDue(calledOff);
        CRC32C crc = new CRC32C();
        long sizeBytes = 0;
        try (FileChannel channel =
                FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS)) {
            channel.force(true);
            for (int count = channel.read(buffer.clear()); count > 0; count = channel.read(buffer.clear())) {
                requireDue(calledOff);
                crc.update(buffer.flip());
                sizeBytes += count;
            }
        }
        return new ImageManifest.ManifestEntry(NameKind.FILE, name, sizeBytes, (int) crc.getValue(), "");
    }

    private static void requireDue(BooleanSupplier calledOff) throws IOException {
        if (calledOff.getAsBoolean()) {
            throw new IOException("the checkpoint was ended while its images were written");
        }
    }

    private static void write(Path file, byte[] text) throws IOException {
        try (FileChannel channel = FileChannel.open(
                file,
                Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(OWNER_ONLY)))) {
            ByteBuffer bytes = ByteBuffer.wrap(text);
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
    }

    /**
     * Gives a whole image its name, when all in it is on the disk.
     *
     * @param inside its directories
     */
    void complete(String set, String pod, List<Path> inside) throws IOException {
        for (Path one : inside) {
            sync(one);
        }
        Files.move(partial(set, pod), image(set, pod), StandardCopyOption.ATOMIC_MOVE);
        syncNames(set);
    }

    /** Brings the names of a set's images to the disk. */
    void syncNames(String set) throws IOException {
        for (Path one = set(set); !one.equals(directory.getParent()) && one != null; one = one.getParent()) {
            sync(one);
        }
    }

    /** Returns true if there is a whole image of a pod. */
    boolean isWhole(String set, String pod) throws IOException {
        return isWhole(image(set, pod));
    }

    private static boolean isWhole(Path image) throws IOException {
        Path manifest = image.resolve(ImageManifest.FILE_NAME);
        return !image.getFileName().toString().endsWith(PARTIAL)
                && Files.isRegularFile(manifest, LinkOption.NOFOLLOW_LINKS)
                && Files.size(manifest) <= ImageManifest.MAX_BYTES;
    }

    private static void sync(Path one) throws IOException {
        try (FileChannel channel = FileChannel.open(one, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    private static String digest(byte[] manifest) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(manifest);
            return HexFormat.of().formatHex(digest, 0, DIGEST_BYTES);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("SHA-256 is missing in this JDK, though every JDK must have it", e);
        }
    }

    /** Returns the pods of a set whose images this node can read. */
    public NavigableSet<String> pods(String set) throws IOException {
        NavigableSet<String> pods = new TreeSet<>();
        try (DirectoryStream<Path> images = Files.newDirectoryStream(set(set))) {
            for (Path image : images) {
                if (isWhole(image)) {
                    pods.add(image.getFileName().toString());
                }
            }
            return pods;
        } catch (NoSuchFileException e) {
            return Collections.emptyNavigableSet();
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
    }

    /** Returns the digest of a whole image. */
    public String digest(String set, String pod) throws IOException {
        return digest(Files.readAllBytes(image(set, pod).resolve(ImageManifest.FILE_NAME)));
    }

    /** Returns the node on which a whole image was written. */
    public String nodeOf(String set, String pod) throws IOException {
        return ImageManifest.read(image(set, pod)).node();
    }

    /** Removes a pod's image of a set, whole or not. The directory of the set goes with its last image. */
    public void remove(String set, String pod) throws IOException {
        WorkDirectories.remove(partial(set, pod));
        WorkDirectories.remove(image(set, pod));
        Path left = set(set);
        if (Files.isDirectory(left)) {
            try (Stream<Path> inside = Files.list(left)) {
                if (inside.findAny().isPresent()) {
                    return;
                }
            }
            // Another node may have removed it.
            Files.deleteIfExists(left);
        }
    }

    /** Returns all sets in the directory except these. */
    public Set<String> others(Set<String> kept) throws IOException {
        if (!Files.exists(sets(), LinkOption.NOFOLLOW_LINKS)) {
            return Set.of();
        }
        requireOwn(sets().getParent());
        requireOwn(sets());
        Set<String> old = new TreeSet<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(sets())) {
            for (Path one : all) {
                String id = one.getFileName().toString();
                if (!kept.contains(id)) {
                    old.add(id);
                }
            }
        } catch (NoSuchFileException e) {
            return Set.of();
        }
        return old;
    }
}
