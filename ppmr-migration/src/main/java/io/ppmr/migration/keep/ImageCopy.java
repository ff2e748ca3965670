package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.ImageManifest.ManifestEntry;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.zip.CRC32C;

/**
 * Copies whole images of a set into another directory, while their job runs. Each file is compared with its manifest
 * on the way, so a damaged image is never copied as a whole one. One thread owns it.
 */
public final class ImageCopy {
    /** Small enough for the processor's cache, in which the job has its data, too. */
    private static final int BUFFER_BYTES = 256 << 10;

    private static final Set<PosixFilePermission> OWNER_ONLY = PosixFilePermissions.fromString("rw-------");
    private static final FileAttribute<?> PRIVATE =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));

    /** The rate of a copy. */
    @FunctionalInterface
    public interface Pace {
        /**
         * Called after bytes were copied. Waits for as long as the rate requires.
         *
         * @throws IOException if the copy is no longer needed
         */
        void copied(int bytes) throws IOException;
    }

    private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
    private final Pace pace;

    public ImageCopy(Pace pace) {
        this.pace = pace;
    }

    /**
     * Copies the image of a pod, unless it is there already. It is on the disk when this returns.
     *
     * @return the digest of its manifest
     * @throws RequestException if one of the directories, or the image, is not only root's
     * @throws IOException if the image is damaged, or there is no room
     */
    public String copy(SetDirectory from, SetDirectory to, String set, String pod)
            throws IOException, RequestException {
        from.requireSafe();
        to.requireSafe();
        String digest = from.digest(set, pod);
        if (to.isWhole(set, pod) && to.digest(set, pod).equals(digest)) {
            // A run that died may not have brought its name to the disk.
            to.syncNames(set);
            return digest;
        }
        to.remove(set, pod);
        KeptImages images = KeptImages.open(from.image(set, pod));
        images.requireOwners(JobUser.ofService());
        long freeBytes = to.freeBytes();
        if (images.manifest().totalBytes() > freeBytes) {
            throw new IOException(to.directory() + " has " + freeBytes + " bytes free, and the image of pod " + pod
                    + " has " + images.manifest().totalBytes() + ". Remedy: make room there, or lower keep");
        }
        boolean isDone = false;
        try {
            copyFiles(
                    from.image(set, pod), to.begin(set, pod), images.manifest().entries(), to, set, pod);
            isDone = true;
        } finally {
            if (!isDone) {
                WorkDirectories.remove(to.partial(set, pod));
            }
        }
        if (!to.digest(set, pod).equals(digest)) {
            throw new IOException("the image of pod " + pod + " was changed while it was copied");
        }
        return digest;
    }

    private void copyFiles(Path image, Path copy, List<ManifestEntry> entries, SetDirectory to, String set, String pod)
            throws IOException {
        List<Path> directories = new ArrayList<>(List.of(copy));
        for (ManifestEntry entry : entries) {
            Path path = copy.resolve(entry.path());
            switch (entry.kind()) {
                case DIRECTORY -> {
                    Files.createDirectory(path, PRIVATE);
                    directories.add(path);
                }
                case SYMLINK -> Files.createSymbolicLink(path, Path.of(entry.target()));
                case FILE -> {
                    CRC32C crc = new CRC32C();
                    long sizeBytes = copyFile(image.resolve(entry.path()), path, crc);
                    if (sizeBytes != entry.sizeBytes() || (int) crc.getValue() != entry.crc32c()) {
                        throw new IOException(image.resolve(entry.path()) + " is damaged: it is not copied. Remedy:"
                                + " check that disk; order another checkpoint");
                    }
                }
            }
        }
        for (String name : List.of(ImageManifest.FILE_NAME, ImageManifest.DIGEST_FILE_NAME)) {
            copyFile(image.resolve(name), copy.resolve(name), new CRC32C());
        }
        to.complete(set, pod, directories);
    }

    private long copyFile(Path from, Path to, CRC32C crc) throws IOException {
        long sizeBytes = 0;
        try (FileChannel in = FileChannel.open(from, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
                FileChannel out = FileChannel.open(
                        to,
                        Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW),
                        PosixFilePermissions.asFileAttribute(OWNER_ONLY))) {
            for (int count = in.read(buffer.clear()); count > 0; count = in.read(buffer.clear())) {
                crc.update(buffer.flip());
                buffer.rewind();
                while (buffer.hasRemaining()) {
                    out.write(buffer);
                }
                sizeBytes += count;
                pace.copied(count);
            }
            out.force(true);
        }
        return sizeBytes;
    }
}
