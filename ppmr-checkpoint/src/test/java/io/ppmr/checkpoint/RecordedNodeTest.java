package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.RankRights.OpenFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A process as a Linux 3.10 node showed it. */
class RecordedNodeTest {
    private static final Path RECORDED = Path.of("../ppmr-os/src/test/resources/linux-3.10");

    @TempDir
    private Path folder;

    private Path process;

    @BeforeEach
    void showTheProcess() throws Exception {
        process = Files.createDirectory(folder.resolve("84"));
        for (String file : List.of("status", "stat", "statm", "limits", "maps", "smaps")) {
            Files.copy(RECORDED.resolve("pid-" + file), process.resolve(file));
        }
        Files.createDirectories(process.resolve("fdinfo"));
        Files.copy(RECORDED.resolve("pid-fdinfo-0"), process.resolve("fdinfo/0"));
        links("pid-ns", process.resolve("ns"));
        links("pid-fd", process.resolve("fd"));
    }

    /** The links of a recorded listing; those that lead nowhere here, to a terminal that is gone, are left out. */
    private static void links(String listing, Path to) throws Exception {
        Files.createDirectory(to);
        for (String line : lines(listing)) {
            int arrow = line.indexOf(" -> ");
            if (arrow > 0 && !line.endsWith(" (deleted)")) {
                String name = line.substring(line.lastIndexOf(' ', arrow - 1) + 1, arrow);
                Files.createSymbolicLink(to.resolve(name), Path.of(line.substring(arrow + 4)));
            }
        }
    }

    private static List<String> lines(String file) throws Exception {
        return Files.readAllLines(RECORDED.resolve(file), StandardCharsets.ISO_8859_1);
    }

    @Test
    void shouldReadWhatAThreadMayDo() throws Exception {
        Map<String, long[]> limits = RankRights.limits(process);
        assertEquals(RankRights.LIMITS.size(), limits.size(), "each limit is there");
        assertEquals(8388608, limits.get("stack")[0]);
        ThreadRights thread = RankRights.thread(process, limits, Map.of("pid", "pid:[4026531836]", "mnt", "mnt:[1]"));
        assertEquals(84, thread.id(), "no NSpid: it is called as its directory");
        assertEquals(Set.of(0), thread.uids());
        assertEquals(Set.of("pid"), thread.nodesNamespaces());
        assertEquals(0x1fffffffffL, thread.capabilities().get(1), "CapPrm");
        assertEquals(0, thread.seccomp());
        assertFalse(thread.noNewPrivileges());
    }

    @Test
    void shouldReadWhatIsOpen() throws Exception {
        Set<OpenFile> files = new LinkedHashSet<>();
        Set<String> others = new LinkedHashSet<>();
        RankRights.descriptors(process, files, others);
        assertEquals(Set.of(new OpenFile("/dev/null", 0, true, false)), files);
        assertEquals(Set.of(), others);
    }

    @Test
    void shouldReadWhatIsMapped() throws Exception {
        Path program = Files.createFile(folder.resolve("program"));
        Path mapped = Files.createDirectory(process.resolve("map_files"));
        int named = 0;
        for (String line : lines("pid-maps")) {
            if (line.contains(" /")) {
                named++;
                Files.createSymbolicLink(mapped.resolve(line.substring(0, line.indexOf(' '))), program);
            }
        }
        assertEquals(28, named);
        Set<OpenFile> files = new LinkedHashSet<>();
        RankRights.mappings(process, files);
        // Links of map_files have the mode of the mapping; made by hand they have all.
        assertEquals(
                Set.of(
                        new OpenFile(program.toString(), 0, true, false),
                        new OpenFile(program.toString(), 0, true, true)),
                files);
    }

    @Test
    void shouldCountSwitchesWhenThereIsNoSchedstat() {
        assertEquals(new ThreadTimes(84, 0, 140), ThreadTimes.read(process).orElseThrow());
    }

    @Test
    void shouldReckonMemoryFromMappingsWhenThereIsNoRssAnon() throws Exception {
        assertEquals(104 * 1024, ResidentMemory.unfiledBytesBySmaps(process));
        assertEquals(104, sum("Anonymous:") + sum("Swap:"));
        // Recorded a moment before: all that is resident, the files' pages too.
        assertEquals(
                178, Integer.parseInt(Files.readString(process.resolve("statm")).split(" ", -1)[1]));
        assertTrue(104 < 178 * 4 && 178 * 4 < sum("Rss:"));
    }

    private static long sum(String field) throws Exception {
        return lines("pid-smaps").stream()
                .filter(line -> line.startsWith(field))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
                .sum();
    }

    @Test
    void shouldCountSharedMemoryByItsShareAndPrivateMemoryByItsPages() throws Exception {
        Files.writeString(process.resolve("smaps"), """
                7f0000000000-7f0000100000 rw-s 00000000 00:04 77                     /dev/zero (deleted)
                Rss:                1024 kB
                Pss:                 512 kB
                Anonymous:             0 kB
                Swap:                  4 kB
                7f1000000000-7f1000100000 rw-p 00000000 08:01 78                     /usr/lib/libc.so.6
                Rss:                  64 kB
                Pss:                  32 kB
                Anonymous:            16 kB
                Swap:                  0 kB
                7f2000000000-7f2000100000 rw-p 00000000 00:00 0\s
                Rss:                   8 kB
                Pss:                   8 kB
                Anonymous:             8 kB
                Swap:                  1 kB
                """);
        assertEquals((512 + 4 + 16 + 8 + 1) * 1024, ResidentMemory.unfiledBytesBySmaps(process));
    }
}
