package io.ppmr.migration.keep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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

    static ImageManifest manifest(String name) {
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
        return sets.end(SET, name, manifest(name), KEY, () -> false);
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
        assertEquals(Set.of(), sets.others(Set.of(SET)));
        assertEquals(Set.of(SET), sets.others(Set.of("2-2-00000000")));
        sets.remove(SET, "p1");
        assertEquals(Set.of("p2"), sets.pods(SET));
        sets.remove(SET, "p2");
        assertEquals(Set.of(), sets.others(Set.of()));
    }

    @Test
    void shouldRefuseADirectoryInWhichOthersMayMakeNames() throws Exception {
        sets.requireSafe();
        Command.of(List.of("chmod", "1777", folder.toString())).run(Duration.ofSeconds(20));
        RequestException refused = assertThrows(RequestException.class, sets::requireSafe);
        assertTrue(refused.getMessage().contains("Remedy"), refused.getMessage());
    }

    /** Another user may have made it before its operator changed the directory's mode. */
    @ParameterizedTest
    @ValueSource(strings = {"1000", "1000/ring", "1000/ring/" + SET})
    void shouldWriteNothingAndRemoveNothingWhenADirectoryIsNotRoots(String path) throws Exception {
        Path made = Files.createDirectories(folder.resolve(path));
        Files.setAttribute(made, "unix:uid", 1234);
        IOException refused = assertThrows(IOException.class, () -> sets.begin(SET, "p1"));
        assertTrue(refused.getMessage().contains(made.toString()), refused.getMessage());
        if (path.equals("1000/ring")) {
            assertThrows(IOException.class, () -> sets.others(Set.of()));
        }
    }

    @Test
    void shouldFollowNoLinkOfAnotherUsersToSets() throws Exception {
        write("p1");
        SetDirectory others = new SetDirectory(folder, 1001, "ring");
        Files.createDirectory(folder.resolve("1001"));
        Files.createSymbolicLink(folder.resolve("1001/ring"), Path.of("../1000/ring"));
        assertThrows(IOException.class, () -> others.begin(SET, "p1"));
        assertThrows(IOException.class, () -> others.others(Set.of()));
        assertEquals(Set.of("p1"), sets.pods(SET));
    }

    @Test
    void shouldWriteNoImageThatNoRestartReads() throws Exception {
        Path partial = sets.begin(SET, "p1");
        Files.createDirectory(partial.resolve("rank-0"));
        List<MemberImage.WrittenFile> files = IntStream.range(0, 100)
                .mapToObj(i -> new MemberImage.WrittenFile("/" + "x".repeat(100_000) + i, i))
                .toList();
        ImageManifest known = manifest("p1");
        MemberImage pod = known.pod().orElseThrow();
        ImageManifest large = new ImageManifest(
                known.version(),
                known.job(),
                known.checkpointer(),
                known.user(),
                known.migrationId(),
                known.attempt(),
                known.writtenEpochMs(),
                known.node(),
                known.originals(),
                known.entries(),
                Optional.of(new MemberImage(pod.set(), pod.incarnation(), pod.pod(), files, pod.stopped())));
        IOException refused = assertThrows(IOException.class, () -> sets.end(SET, "p1", large, KEY, () -> false));
        assertTrue(refused.getMessage().contains("Remedy"), refused.getMessage());
        assertEquals(Set.of(), sets.pods(SET));
    }

    @Test
    void shouldEndNoImageThatIsNotNeeded() throws Exception {
        Path partial = sets.begin(SET, "p1");
        Files.createDirectory(partial.resolve("rank-0"));
        Files.writeString(partial.resolve("rank-0/pages-1.img"), "pages");
        assertThrows(IOException.class, () -> sets.end(SET, "p1", manifest("p1"), KEY, () -> true));
        assertEquals(Set.of(), sets.pods(SET));
    }
}
