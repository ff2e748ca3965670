package io.ppmr.migration.keep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SetDirectoryTest {
    private static final String SET = "1-1-00000000";
    private static final PreSharedKey KEY = new PreSharedKey(new byte[32]);

    @TempDir
    private Path folder;

    private SetDirectory sets;

    @BeforeEach
    void setUp() {
        sets = new SetDirectory(folder, 1000, "ring");
    }

    private static PodFacts pod(String name) {
        return new PodFacts(
                new PodSpecification(name, "ring", "mpi", List.of("A=b c", "B="), List.of("./ring", "5 6"), 3, "auto"),
                1000,
                100,
                new PodAddresses("10.20.0.10", "", "02:50:0a:14:00:0a"),
                24,
                1500,
                List.of("/usr", "/home dir"),
                7,
                false);
    }

    private static ImageManifest manifest(String name) {
        return new ImageManifest(
                "3",
                "ring",
                "criu",
                new JobUser(1000, 100),
                "checkpoint-1",
                1,
                5,
                "n1",
                Map.of(0, List.of(new ProcessIdentity("boot", 1, 2, 3))),
                List.of(),
                Optional.of(new MemberImage(
                        SET,
                        4,
                        pod(name),
                        List.of(new MemberImage.WrittenFile("/home dir/out", 12)),
                        Optional.of(new StoppedProcesses(List.of(1, 7), List.of(-1, 0), List.of(1))))));
    }

    private SetDirectory.WrittenImage write(String name) throws IOException {
        Path partial = sets.begin(SET, name);
        Files.createDirectory(partial.resolve("rank-0"));
        Files.writeString(partial.resolve("rank-0/pages-1.img"), "pages of " + name);
        return sets.end(SET, name, manifest(name), KEY);
    }

    @Test
    void shouldBeAWholeImageWithItsPodWhenItIsWritten() throws Exception {
        SetDirectory.WrittenImage written = write("p1");
        assertEquals(Set.of("p1"), sets.pods(SET));
        assertEquals(written.digest(), sets.digest(SET, "p1"));
        KeptImages images = KeptImages.open(sets.image(SET, "p1"));
        images.requireSealed(KEY, false);
        images.requireWhole();
        assertEquals(manifest("p1").pod(), images.manifest().pod());
        assertEquals("pages of p1".length(), written.bytes());
    }

    @Test
    void shouldBeRefusedByNameWhenItIsChanged() throws Exception {
        write("p1");
        Path image = sets.image(SET, "p1");
        KeptImages images = KeptImages.open(image);
        assertThrows(RequestException.class, () -> images.requireSealed(new PreSharedKey(key(1)), false));
        Files.writeString(image.resolve("rank-0/pages-1.img"), "pages of p2");
        RequestException damaged = assertThrows(RequestException.class, images::requireWhole);
        assertTrue(damaged.getMessage().contains("pages-1.img"), damaged.getMessage());
        RequestException pod = assertThrows(RequestException.class, images::requireNoPod);
        assertTrue(pod.getMessage().contains("ppmr job restart ring --set " + SET), pod.getMessage());
    }

    private static byte[] key(int first) {
        byte[] key = new byte[32];
        key[0] = (byte) first;
        return key;
    }

    @Test
    void shouldNotBeThereWhileItIsPartial() throws Exception {
        Path partial = sets.begin(SET, "p1");
        Files.writeString(partial.resolve("left"), "of an earlier try");
        assertEquals(Set.of(), sets.pods(SET));
        assertFalse(Files.exists(sets.begin(SET, "p1").resolve("left")), "nothing of an earlier try stays");
        sets.remove(SET, "p1");
        assertFalse(Files.exists(partial.getParent()), "the set's directory goes with its last image");
    }

    @Test
    void shouldRemoveOnlyThePodsOfThisNodeFromOldSets() throws Exception {
        write("p1");
        write("p2");
        sets.keepOnly(Set.of(SET), Set.of("p1"));
        assertEquals(Set.of("p1", "p2"), sets.pods(SET));
        sets.keepOnly(Set.of(), Set.of("p1"));
        assertEquals(Set.of("p2"), sets.pods(SET));
        sets.keepOnly(Set.of(), Set.of("p2"));
        assertEquals(Set.of(), sets.pods(SET));
    }
}
