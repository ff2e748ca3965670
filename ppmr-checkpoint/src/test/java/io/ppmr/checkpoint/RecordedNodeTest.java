package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.Scheduling;
import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests a process as a Linux 3.10 node showed it. */
class RecordedNodeTest {
    private static final Path RECORDED = Path.of("../ppmr-linux/src/test/resources/linux-3.10");

    private static final KernelFeatures RECORDED_KERNEL = KernelFeatures.of("3.10.108", Set.of());

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

    /** Makes the links of a recorded listing, except for those without a target here, to a terminal that is gone. */
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
        ProcessRights common = ProcessRights.read(process, Map.of("pid", "pid:[4026531836]", "mnt", "mnt:[1]"));
        assertEquals(ProcessRights.LIMITS.size(), common.limits().size(), "each limit is there");
        assertEquals(8388608, common.limits().get("stack")[0]);
        ThreadRights thread;
        try (ProcFolder threads = ProcFolder.open(folder.toString())) {
            LivingThread one = LivingThread.of(threads, "84").orElseThrow();
            thread = common.thread(one, new Scheduling(0, 0, 0));
        }
        assertEquals(84, thread.id(), "no NSpid: it is called as its directory");
        assertEquals(Set.of(0), thread.uids());
        assertEquals(Set.of("pid"), thread.nodesNamespaces());
        assertEquals(0x1fffffffffL, thread.capabilities().get(1), "CapPrm");
        assertEquals(0, thread.seccomp().mode());
        assertFalse(thread.noNewPrivileges());
    }

    @Test
    void shouldReadWhatIsOpen() throws Exception {
        Set<OpenFile> files = new LinkedHashSet<>();
        Set<String> others = new LinkedHashSet<>();
        try (ProcFolder open = ProcFolder.open(process + "/fd")) {
            ProcessPrivileges.descriptors(open, files::add, others::add, (descriptor, target) -> {});
        }
        // Links of descriptors have the modes of their files, but links that a test makes have all.
        assertEquals(Set.of(new OpenFile("/dev/null", 0, true, true)), files);
        assertEquals(Set.of(), others);
    }

    private static void read(Path process, Set<OpenFile> files, KernelFeatures kernel) throws Exception {
        try (ProcFolder own = ProcFolder.open(process.toString())) {
            ProcessPrivileges.mappings(own, files::add, kernel, new RecentTexts());
        }
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
        read(process, files, KernelFeatures.of("3.10.108", Set.of(Feature.MAP_FILES)));
        // Links of map_files have the mode of the mapping, but links that a test makes have all.
        assertEquals(
                Set.of(
                        new OpenFile(program.toString(), 0, true, false),
                        new OpenFile(program.toString(), 0, true, true)),
                files);
    }

    @Test
    void shouldReadWhatIsMappedWhenThereIsNoMapFiles() throws Exception {
        Set<String> paths = new TreeSet<>();
        for (String line : lines("pid-maps")) {
            if (line.contains(" /")) {
                paths.add(line.substring(line.indexOf(" /") + 1));
            }
        }
        Set<OpenFile> files = new LinkedHashSet<>();
        read(process, files, RECORDED_KERNEL);
        assertEquals(paths, files.stream().map(OpenFile::path).collect(Collectors.toSet()));
        for (OpenFile file : files) {
            // Of the shared mappings, only gconv-modules.cache may not be written. No file here is that one.
            assertEquals(new OpenFile(file.path(), -1, true, false), file);
        }
    }

    @Test
    void shouldSayOfASharedMappingWhetherItMayBeWrittenWhenThereIsNoMapFiles() throws Exception {
        Path read = Files.createFile(folder.resolve("read"));
        Path write = Files.createFile(folder.resolve("write"));
        Path secluded = Files.createFile(folder.resolve("private"));
        Path odd = Files.createFile(folder.resolve("odd\nname"));
        Path signs = Files.createFile(folder.resolve("signs\\012for one"));
        Path inside =
                Files.createFile(Files.createDirectory(folder.resolve("inside")).resolve("own"));
        Files.createSymbolicLink(process.resolve("root"), inside.getParent());
        Path replaced = Files.createFile(folder.resolve("replaced"));
        Files.writeString(
                process.resolve("smaps"),
                mapping("r--s", read, read, "rd sh mr me ms")
                        + mapping("r--s", write, write, "rd sh mr mw me ms")
                        + mapping("rw-p", secluded, secluded, "rd wr mr mw me")
                        + mapping("rw-s", odd, odd, "rd wr sh mr mw me")
                        + mapping("r--p", signs, signs, "rd mr mw me")
                        + mapping("r-xp", Path.of("/own"), inside, "rd ex mr mw me")
                        + mapping("r--p", replaced, read, "rd mr mw me")
                        + "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \nVmFlags: rd wr mr mw me \n"
                        + "7ffeb2a95000-7ffeb2ab6000 rw-p 00000000 00:00 0        [stack]\nVmFlags: rd wr \n");
        Set<OpenFile> files = new LinkedHashSet<>();
        read(process, files, RECORDED_KERNEL);
        int me = (Integer) Files.getAttribute(read, "unix:uid");
        assertEquals(
                Set.of(
                        new OpenFile(read.toString(), me, true, false),
                        new OpenFile(write.toString(), me, true, true),
                        new OpenFile(secluded.toString(), me, true, false),
                        new OpenFile(odd.toString(), me, true, true),
                        new OpenFile(signs.toString(), me, true, false),
                        new OpenFile("/own", me, true, false),
                        new OpenFile(replaced.toString(), -1, true, false)),
                files);
    }

    /** Returns the lines of smaps for a mapping whose path is one file's and whose device and inode are another's. */
    private static String mapping(String permissions, Path path, Path of, String flags) throws Exception {
        Map<String, Object> file = Files.readAttributes(of, "unix:dev,ino");
        long device = (Long) file.get("dev");
        return String.format(
                "7f0000000000-7f0000001000 %s 00000000 %02x:%02x %d        %s%nRss: 4 kB%nVmFlags: %s %n",
                permissions,
                (device >> 8 & 0xfff) | (device >> 32 & ~0xfff),
                (device & 0xff) | (device >> 12 & ~0xff),
                (Long) file.get("ino"),
                path.toString().replace("\n", "\\012"),
                flags);
    }

    @Test
    void shouldRefuseByNameWhenNothingSaysWhetherASharedMappingMayBeWritten() throws Exception {
        Path file = Files.createFile(folder.resolve("file"));
        Files.writeString(
                process.resolve("smaps"), mapping("r--s", file, file, "rd").replaceAll("VmFlags.*\n", ""));
        IOException refused =
                assertThrows(IOException.class, () -> read(process, new LinkedHashSet<>(), RECORDED_KERNEL));
        assertTrue(refused.getMessage().contains("shared mapping of " + file), refused.getMessage());
    }

    @Test
    void shouldReadTheSameOfARealProcessWithAndWithoutMapFiles() throws Exception {
        Path read = Files.writeString(folder.resolve("read"), "x");
        Path write = Files.writeString(folder.resolve("write"), "x");
        String ours = folder.toRealPath() + "/";
        try (FileChannel reading = FileChannel.open(read);
                FileChannel writing = FileChannel.open(write, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            // Neither may be written now. One of them may be after mprotect(2).
            List<MappedByteBuffer> mapped = List.of(
                    reading.map(FileChannel.MapMode.READ_ONLY, 0, 1), writing.map(FileChannel.MapMode.READ_ONLY, 0, 1));
            for (KernelFeatures kernel : List.of(KernelFeatures.here(), RECORDED_KERNEL)) {
                Set<OpenFile> files = new LinkedHashSet<>();
                read(Path.of("/proc/self"), files, kernel);
                Set<String> found = files.stream()
                        .filter(file -> file.path().startsWith(ours))
                        .map(file -> Path.of(file.path()).getFileName() + " " + file.reads() + " " + file.writes())
                        .collect(Collectors.toSet());
                assertEquals(Set.of("read true false", "write true true"), found, kernel.release() + " of " + mapped);
            }
        }
    }

    @Test
    void shouldCountTimeOnAProcessorWhenTheKernelSaysIt() throws Exception {
        Files.writeString(process.resolve("schedstat"), "1234 5 6\n");
        KernelFeatures kernel = KernelFeatures.of("6.1.0", Set.of(Feature.SCHEDSTAT));
        try (ProcFolder threads = ProcFolder.open(folder.toString())) {
            assertEquals(
                    new ThreadTimes(84, 1234, 6),
                    ThreadTimes.read(threads, "84", kernel).orElseThrow());
            Files.writeString(process.resolve("schedstat"), "");
            assertTrue(ThreadTimes.read(threads, "84", kernel).isEmpty(), "it has just ended");
        }
    }

    @Test
    void shouldFreezeNothingWhenTheKernelHasNoFreezer() throws Exception {
        ProcessIdentity self =
                new ProcessTable().of((int) ProcessHandle.current().pid());
        assertEquals(
                List.of(), FrozenCgroups.around(List.of(self), RECORDED_KERNEL).paths());
    }

    @Test
    void shouldCountSwitchesWhenThereIsNoSchedstat() throws Exception {
        try (ProcFolder threads = ProcFolder.open(folder.toString())) {
            assertEquals(
                    new ThreadTimes(84, 0, 140),
                    ThreadTimes.read(threads, "84", RECORDED_KERNEL).orElseThrow());
        }
    }

    @Test
    void shouldCountSwitchesWhenTheKernelDoesNotCountTurns() throws Exception {
        Files.writeString(process.resolve("schedstat"), "0 0 0\n");
        try (ProcFolder threads = ProcFolder.open(folder.toString())) {
            assertEquals(
                    new ThreadTimes(84, 0, 140),
                    ThreadTimes.read(threads, "84", KernelFeatures.of("6.1.0", Set.of(Feature.SCHEDSTAT)))
                            .orElseThrow());
        }
    }

    @Test
    void shouldReckonMemoryFromMappingsWhenThereIsNoRssAnon() throws Exception {
        assertEquals(104 * 1024, ResidentMemory.unfiledBytesBySmaps(process));
        assertEquals(104, sum("Anonymous:") + sum("Swap:"));
        // This was recorded slightly earlier, and includes the files' pages.
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
