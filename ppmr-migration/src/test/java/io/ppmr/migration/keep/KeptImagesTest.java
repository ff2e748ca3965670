package io.ppmr.migration.keep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.source.image.ImageName.NameKind;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Tests a user's changes to a kept copy that should make root restart another program. */
class KeptImagesTest {
    private static final PreSharedKey KEY =
            new PreSharedKey("a key that only this test knows, 32 b".getBytes(StandardCharsets.UTF_8));
    private static final PreSharedKey OLDER_KEY =
            new PreSharedKey("the key before that one, of as many b".getBytes(StandardCharsets.UTF_8));
    private static final JobUser USER = new JobUser(20_001, 20_001);
    private static final JobUser ROOT = new JobUser(0, 0);
    private static final int STRANGER = 20_002;

    @TempDir
    private Path directory;

    private Path copy;
    private Path image;

    @BeforeEach
    void keep() throws IOException {
        Assumptions.assumeTrue(JobUser.ofService().uid() == 0, "owners are changed, which only root can do");
        copy = Files.createDirectory(directory.resolve("job-1.1"));
        mode(copy, "rwx--x--x");
        Path rank = Files.createDirectory(copy.resolve("rank-0"));
        image = Files.writeString(rank.resolve("image"), "bytes");
        for (Path users : List.of(image, rank)) {
            mode(users, users.equals(rank) ? "rwx------" : "rw-------");
            own(users, USER.uid());
        }
        seal(manifest("criu"), KEY);
    }

    private static void mode(Path path, String mode) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
    }

    private static void own(Path path, int uid) throws IOException {
        Files.setAttribute(path, "unix:uid", uid, java.nio.file.LinkOption.NOFOLLOW_LINKS);
    }

    private static ImageManifest manifest(String checkpointer) {
        CRC32C crc = new CRC32C();
        crc.update("bytes".getBytes(StandardCharsets.UTF_8));
        return new ImageManifest(
                "0.1",
                "job",
                checkpointer,
                USER,
                "m-1",
                1,
                5,
                "node",
                Map.of(0, List.of(new ProcessIdentity("no such boot", 1, 2, 3))),
                List.of(
                        new ImageManifest.ManifestEntry(NameKind.DIRECTORY, "rank-0", 0, 0, ""),
                        new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/image", 5, (int) crc.getValue(), "")));
    }

    private void seal(ImageManifest manifest, PreSharedKey key) throws IOException {
        write(ImageManifest.FILE_NAME, manifest.text());
        write(
                ImageManifest.DIGEST_FILE_NAME,
                ImageManifest.digest(key, manifest.text().getBytes(StandardCharsets.UTF_8)));
    }

    private void write(String name, String text) throws IOException {
        mode(Files.writeString(copy.resolve(name), text), "rw-------");
    }

    /** Checks in the same way as the command. */
    private void check(PreSharedKey key, boolean withoutDigest, JobUser restartedAs) throws Exception {
        KeptImages images = KeptImages.open(copy);
        images.requireSealed(key, withoutDigest);
        images.requireOwners(restartedAs);
        images.requireNoPod();
        images.requireNoneAlive(new ProcessTable());
        images.requireWhole();
    }

    private void check() throws Exception {
        check(KEY, false, USER);
    }

    private static void refused(Executable check, String... words) {
        RequestException refusal = assertThrows(RequestException.class, check);
        for (String word : words) {
            assertTrue(refusal.getMessage().contains(word), refusal.getMessage());
        }
    }

    @Test
    void shouldTakeACopyWhenItIsAsItWasKept() throws Exception {
        check();
        write("restarted", "no-such-boot 1 2 3\n");
        check();
    }

    @Test
    void shouldRefuseWhenTheManifestWasChangedThoughItsChecksumIsRight() throws Exception {
        write(ImageManifest.FILE_NAME, manifest("command-of-mine").text());
        assertEquals("command-of-mine", ImageManifest.read(copy).checkpointer(), "its checksum is right");
        refused(this::check, "no service with this node's key has written");
    }

    @Test
    void shouldTakeACopyOfAnOlderKeyByThatKeyAlone() throws Exception {
        seal(manifest("criu"), OLDER_KEY);
        refused(this::check, "--key-file");
        check(OLDER_KEY, false, USER);
    }

    @Test
    void shouldTakeACopyWithoutADigestOnlyWhenToldTo() throws Exception {
        Files.delete(copy.resolve(ImageManifest.DIGEST_FILE_NAME));
        refused(this::check, "has no file " + ImageManifest.DIGEST_FILE_NAME, "--without-digest");
        check(KEY, true, USER);
        // The digest may be missing, but must not be wrong.
        write(ImageManifest.DIGEST_FILE_NAME, "00\n");
        refused(() -> check(KEY, true, USER), "no service with this node's key");
    }

    @Test
    void shouldRefuseWhenAFileOfTheImageIsAStrangersOrCanBeWrittenByOne() throws Exception {
        own(image, STRANGER);
        refused(this::check, image + " belongs to user " + STRANGER);
        own(image, USER.uid());
        mode(image, "rw-rw----");
        refused(this::check, image + " can be written by others", "660");
        mode(image, "rw----rw-");
        refused(this::check, image + " can be written by others");
        mode(image, "rw-------");
        Path added = Files.createDirectory(copy.resolve("rank-0/more"));
        own(added, STRANGER);
        refused(this::check, added + " belongs to user " + STRANGER);
    }

    @Test
    void shouldRefuseAnImageOfTheUsersWhenRootRestartsIt() {
        refused(() -> check(KEY, false, ROOT), "belongs to user " + USER.uid(), "must belong to root");
    }

    @Test
    void shouldRefuseWhenTheManifestOrItsDigestIsTheUsers() throws Exception {
        for (String name : List.of(ImageManifest.FILE_NAME, ImageManifest.DIGEST_FILE_NAME)) {
            own(copy.resolve(name), USER.uid());
            refused(this::check, copy.resolve(name) + " belongs to user " + USER.uid());
            own(copy.resolve(name), 0);
        }
        write("restarted", "");
        own(copy.resolve("restarted"), USER.uid());
        refused(this::check, "restarted belongs to user " + USER.uid());
    }

    @Test
    void shouldRefuseWhenTheManifestIsALink() throws Exception {
        Path elsewhere = directory.resolve("elsewhere");
        Files.move(copy.resolve(ImageManifest.FILE_NAME), elsewhere);
        Files.createSymbolicLink(copy.resolve(ImageManifest.FILE_NAME), elsewhere);
        refused(this::check, "is no regular file");
    }

    @Test
    void shouldRefuseWhenSomebodyCanExchangeTheCopyOrWhatIsInIt() throws Exception {
        mode(copy, "rwx--x-wx");
        refused(this::check, "can be written by others");
        mode(copy, "rwx--x--x");
        own(copy, USER.uid());
        refused(this::check, "belongs to user " + USER.uid());
        own(copy, 0);
        mode(directory, "rwxrwxrwx");
        refused(this::check, directory + " can be written by others", "move the copy");
        mode(directory, "rwx--x--x");
        check();
    }

    private static void asUser(String... command) throws Exception {
        List<String> words = new ArrayList<>(
                List.of("setpriv", "--reuid", "" + USER.uid(), "--regid", "" + USER.gid(), "--clear-groups", "--"));
        words.addAll(List.of(command));
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
    }

    /** Writes a manifest of these names beside the image. */
    private void sealWith(ImageManifest.ManifestEntry... more) throws IOException {
        ImageManifest one = manifest("criu");
        List<ImageManifest.ManifestEntry> entries = new ArrayList<>(one.entries());
        entries.addAll(List.of(more));
        seal(
                new ImageManifest(
                        one.version(),
                        one.job(),
                        one.checkpointer(),
                        one.user(),
                        one.migrationId(),
                        one.attempt(),
                        one.writtenEpochMs(),
                        one.node(),
                        one.originals(),
                        entries),
                KEY);
    }

    @Test
    void shouldReadNothingOfRootsWhenItsUserPutsALinkInThePlaceOfAFolder() throws Exception {
        ImageManifest.ManifestEntry image = manifest("criu").entries().get(1);
        Path rank = copy.resolve("rank-0");
        Path folder = Files.createDirectory(rank.resolve("folder"));
        own(folder, USER.uid());
        Path inside = Files.writeString(folder.resolve("image"), "bytes");
        own(inside, USER.uid());
        sealWith(
                new ImageManifest.ManifestEntry(NameKind.DIRECTORY, "rank-0/folder", 0, 0, ""),
                new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/folder/image", 5, image.crc32c(), ""));
        check();
        // The same name with the same bytes, in a folder that only root can read.
        Path roots = Files.createDirectory(directory.resolve("roots"));
        mode(roots, "rwx------");
        Files.writeString(roots.resolve("image"), "bytes");
        mode(directory, "rwx--x--x");
        asUser("sh", "-c", "mv " + folder + " " + rank + "/was && ln -s " + roots + " " + folder);
        refused(this::check, "rank-0/folder is no directory", "rank-0/folder/image cannot be read");
        Files.writeString(roots.resolve("image"), "root's secret of some length");
        String message = assertThrows(RequestException.class, this::check).getMessage();
        assertFalse(message.contains("28 bytes"), message);
    }

    @Test
    void shouldNotWaitWhenItsUserPutsAFifoInThePlaceOfAnImage() throws Exception {
        mode(directory, "rwx--x--x");
        asUser("sh", "-c", "rm " + image + " && mkfifo -m 600 " + image);
        refused(this::check, "rank-0/image is no file");
    }

    @Test
    void shouldRefuseACopyOfAPodByName() throws Exception {
        Path network = Files.writeString(copy.resolve("rank-0/netns-9.img"), "");
        own(network, USER.uid());
        mode(network, "rw-------");
        sealWith(new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/netns-9.img", 0, 0, ""));
        refused(this::check, "is of a pod", "rank-0/netns-9.img", "Remedy");
    }

    @Test
    void shouldRefuseByNameWhenTheNoteOfARestartIsDamaged() throws Exception {
        for (String note : List.of("x\n", "boot 1 2\n", "boot 1 2 99999999999999999999\n", "boot 1 two 3\n")) {
            write("restarted", note);
            refused(this::check, "restarted, which names the processes restarted", "damaged");
        }
    }
}
