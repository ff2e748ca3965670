package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.UserPath;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/** A kept copy on disk, with the checks before a restart from it. Every refusal has a message with the cause. */
public final class KeptImages {
    private static final String PARTIAL = ".partial";
    private static final String RESTARTED = "restarted";
    private static final int READ_BYTES = 1 << 20;
    private static final byte[] NO_BYTES = {};
    private static final int MOST_NAMED = 10;
    private static final int OTHERS_MAY_WRITE = 022;
    private static final int MODE = 07777;
    /** CRIU writes this file for processes with a network of their own. Of such processes, ppmr keeps only pods. */
    private static final Pattern POD_IMAGE = Pattern.compile("rank-\\d+/netns-\\d+\\.img");

    private final Path directory;
    private final ImageManifest manifest;

    private KeptImages(Path directory, ImageManifest manifest) {
        this.directory = directory;
        this.manifest = manifest;
    }

    /** Opens a copy, or refuses if it is not complete. */
    public static KeptImages open(Path named) throws RequestException, IOException {
        if (!Files.isDirectory(named)) {
            throw refused(named + " is not a directory");
        }
        Path directory = named.toRealPath();
        if (directory.getFileName() != null
                && directory.getFileName().toString().endsWith(PARTIAL)) {
            throw refused(directory + " is an incomplete copy: its migration failed, or it could not be kept");
        }
        if (!Files.exists(directory.resolve(ImageManifest.FILE_NAME))) {
            List<Path> inside = copiesIn(directory);
            throw refused(directory + " is no kept copy: it contains no file " + ImageManifest.FILE_NAME
                    + (inside.isEmpty() ? "" : ". Use one of the copies in it: " + inside));
        }
        requireRootOwned(directory);
        try {
            return new KeptImages(directory, ImageManifest.read(directory));
        } catch (IOException e) {
            throw new RequestException(e.getMessage(), e);
        }
    }

    /** Requires that a copy belongs to root, in directories in which no other process can exchange it. */
    private static void requireRootOwned(Path directory) throws RequestException, IOException {
        Optional<WorkDirectories.Changeable> changeable = WorkDirectories.changeable(directory);
        if (changeable.isPresent()) {
            throw refused(directory + " is no trustworthy place for a copy: "
                    + changeable.get().directory() + " " + changeable.get().reason()
                    + ". Remedy: as root, move the copy to a directory in which only root can change names");
        }
        int writable = (int) Files.getAttribute(directory, "unix:mode") & OTHERS_MAY_WRITE;
        if (writable != 0) {
            throw refused(directory + " can be written by others: check its content, then chmod go-w " + directory);
        }
        for (String name : List.of(ImageManifest.FILE_NAME, ImageManifest.DIGEST_FILE_NAME, RESTARTED)) {
            Path file = directory.resolve(name);
            if (Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
                if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
                    throw refused(file + " is no regular file: the kept image was changed");
                }
                requireOwner(file, JobUser.ofService());
            }
        }
    }

    private static void requireOwner(Path path, JobUser owner) throws RequestException, IOException {
        Map<String, Object> found = Files.readAttributes(path, "unix:uid,mode", LinkOption.NOFOLLOW_LINKS);
        int uid = (int) found.get("uid");
        int mode = (int) found.get("mode");
        if (uid != 0 && uid != JobUser.ofService().uid() && uid != owner.uid()) {
            throw refused(path + " belongs to user " + uid + ", which could have changed it; it must belong to root"
                    + (owner.uid() == 0 ? "" : " or to user " + owner.uid()));
        }
        // A link's own mode has no meaning.
        if ((mode & OTHERS_MAY_WRITE) != 0 && !Files.isSymbolicLink(path)) {
            throw refused(path + " can be written by others, which could have changed it; its mode is "
                    + Integer.toOctalString(mode & MODE));
        }
    }

    /**
     * Refuses a copy if another user owns or can write any file in it. Allowed are root and the user of its restart.
     *
     * @param owner the user that the image is restarted as
     */
    public void requireOwners(JobUser owner) throws RequestException, IOException {
        try (Stream<Path> inside = Files.walk(directory)) {
            for (Path path : (Iterable<Path>) inside::iterator) {
                requireOwner(path, owner);
            }
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    /**
     * Refuses unless a service with this key has written the manifest.
     *
     * @param withoutDigest whether a copy of an earlier release without a digest is allowed
     */
    public void requireSealed(PeerAuthenticator key, boolean withoutDigest) throws RequestException, IOException {
        Path file = directory.resolve(ImageManifest.DIGEST_FILE_NAME);
        if (!Files.exists(file)) {
            if (withoutDigest) {
                return;
            }
            throw refused("the copy " + directory + " has no file " + ImageManifest.DIGEST_FILE_NAME
                    + ", so its origin is unproved. If a release without digests made it, and only root can have"
                    + " changed it since, restart it with --without-digest");
        }
        byte[] manifestBytes = Files.readAllBytes(directory.resolve(ImageManifest.FILE_NAME));
        byte[] due = ImageManifest.digest(key, manifestBytes).getBytes(StandardCharsets.US_ASCII);
        if (Files.size(file) != due.length || !MessageDigest.isEqual(due, Files.readAllBytes(file))) {
            throw refused("no service with this node's key has written the manifest of " + directory
                    + ": it was changed, or made with another key, which --key-file can name");
        }
    }

    private static List<Path> copiesIn(Path directory) throws IOException {
        try (Stream<Path> inside = Files.list(directory)) {
            return inside.filter(one -> !one.toString().endsWith(PARTIAL))
                    .filter(one -> Files.exists(one.resolve(ImageManifest.FILE_NAME)))
                    .sorted()
                    .toList();
        }
    }

    private static RequestException refused(String reason) {
        return new RequestException(reason);
    }

    public ImageManifest manifest() {
        return manifest;
    }

    /** Returns the directory of a rank's image. */
    public Path rank(int rank) {
        return directory.resolve("rank-" + rank);
    }

    /**
     * Refuses a copy of a pod, as earlier releases kept them. Its network namespace is in its images, but the rest of
     * the pod was not recorded.
     */
    public void requireNoPod() throws RequestException {
        if (manifest.pod().isPresent()) {
            throw refused("the copy " + directory + " is of a pod of job " + manifest.job()
                    + " over several nodes. Remedy: ppmr job restart " + manifest.job() + " --set "
                    + manifest.pod().get().set());
        }
        for (ImageManifest.ManifestEntry entry : manifest.entries()) {
            if (POD_IMAGE.matcher(entry.path()).matches()) {
                throw refused("the copy " + directory + " is of a pod, because it has the"
                        + " image " + entry.path() + "; no pod"
                        + " can be restarted from a copy yet. Remedy: start the job again in a pod of its own");
            }
        }
    }

    /** Refuses if an original process, or a process that was restarted from this copy, lives on this node. */
    public void requireNoneAlive(ProcessTable processes) throws RequestException, IOException {
        for (var rank : manifest.originals().entrySet()) {
            for (ProcessIdentity process : rank.getValue()) {
                if (processes.isAlive(process)) {
                    throw refused("rank " + rank.getKey() + " of job " + manifest.job() + " still lives here as PID "
                            + process.pid() + ", from which this copy was made. Both would compute the same."
                            + " End that process first");
                }
            }
        }
        Path noted = directory.resolve(RESTARTED);
        if (Files.exists(noted)) {
            for (ProcessIdentity process : restarted(noted)) {
                if (processes.isAlive(process)) {
                    throw refused("job " + manifest.job() + " was restarted from this copy before, and lives here as"
                            + " PID " + process.pid() + ". End that process first");
                }
            }
        }
    }

    private static List<ProcessIdentity> restarted(Path noted) throws RequestException, IOException {
        List<ProcessIdentity> processes = new ArrayList<>();
        try {
            for (String line : Files.readAllLines(noted)) {
                String[] words = line.split(" ", -1);
                processes.add(new ProcessIdentity(
                        words[0], Long.parseLong(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3])));
            }
            return processes;
        } catch (CharacterCodingException | IllegalArgumentException | IndexOutOfBoundsException e) {
            throw new RequestException(
                    noted
                            + ", which names the processes restarted from this copy, is damaged: make sure that no"
                            + " process of the job runs here, then remove it",
                    e);
        }
    }

    /** Records the restarted processes for later restarts. */
    public void noteRestarted(List<ProcessIdentity> restarted) throws IOException {
        List<String> lines = restarted.stream()
                .map(process -> process.bootId() + " " + process.pidNamespace() + " " + process.pid() + " "
                        + process.startTimeTicks())
                .toList();
        Path noted = directory.resolve(RESTARTED);
        Files.deleteIfExists(noted);
        try (FileChannel channel = FileChannel.open(
                noted,
                Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")))) {
            ByteBuffer bytes = StandardCharsets.UTF_8.encode(String.join("\n", lines) + "\n");
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
    }

    /** Refuses a damaged copy, with the names that are missing or changed. */
    public void requireWhole() throws RequestException {
        require(new byte[READ_BYTES]);
    }

    /** Refuses unless each file is there with its size. Reads none of them. */
    public void requireSizes() throws RequestException {
        require(NO_BYTES);
    }

    /** @param buffer for the content of files; if it has no bytes, files are not read */
    private void require(byte[] buffer) throws RequestException {
        List<String> wrong = new ArrayList<>();
        for (ImageManifest.ManifestEntry entry : manifest.entries()) {
            String complaint = complaint(entry, buffer);
            if (!complaint.isEmpty()) {
                wrong.add(entry.path() + " " + complaint);
            }
        }
        if (!wrong.isEmpty()) {
            throw refused("the copy " + directory + " is damaged: "
                    + String.join("; ", wrong.subList(0, Math.min(MOST_NAMED, wrong.size())))
                    + (wrong.size() > MOST_NAMED ? "; and " + (wrong.size() - MOST_NAMED) + " more" : ""));
        }
    }

    private String complaint(ImageManifest.ManifestEntry entry, byte[] buffer) {
        Path path;
        try {
            path = Path.of(entry.path()).normalize();
        } catch (InvalidPathException e) {
            return "is no valid name in this node's locale: use the locale of the copy's node";
        }
        try (UserPath folder = folderOf(path);
                UserPath named = folder.entry(path.getFileName())) {
            return switch (entry.kind()) {
                case DIRECTORY -> named.isDirectory() ? "" : "is no directory";
                case SYMLINK ->
                    named.isLink() && target(folder, path).equals(entry.target()) ? "" : "is not the link that it was";
                case FILE -> complaint(entry, named, buffer);
            };
        } catch (NoSuchFileException e) {
            return "is missing";
        } catch (IOException e) {
            return "cannot be read: " + e.getMessage();
        }
    }

    /**
     * Opens the folder of a name in the copy. The folders of an image belong to the job's user, who can replace one
     * with a link at any time. Therefore each folder is opened before the next is looked up in it, and no link is
     * followed.
     */
    private UserPath folderOf(Path path) throws IOException {
        UserPath folder = UserPath.hold(directory);
        for (int i = 0; i < path.getNameCount() - 1; i++) {
            try (UserPath outer = folder) {
                folder = outer.entry(path.getName(i));
            }
        }
        return folder;
    }

    private static String target(UserPath folder, Path link) throws IOException {
        return Files.readSymbolicLink(folder.directory().resolve(link.getFileName()))
                .toString();
    }

    private static String complaint(ImageManifest.ManifestEntry entry, UserPath file, byte[] buffer)
            throws IOException {
        if (!file.isRegular()) {
            return "is no file";
        }
        long sizeBytes = file.sizeBytes();
        if (sizeBytes != entry.sizeBytes()) {
            return "has " + sizeBytes + " bytes instead of " + entry.sizeBytes();
        }
        if (buffer.length == 0) {
            return "";
        }
        CRC32C crc = new CRC32C();
        file.read(buffer, lengthBytes -> crc.update(buffer, 0, lengthBytes));
        return (int) crc.getValue() == entry.crc32c() ? "" : "was changed: its CRC32C is wrong";
    }
}
