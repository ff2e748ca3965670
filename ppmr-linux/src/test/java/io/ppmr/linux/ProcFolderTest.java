package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Reads what the kernel shows of this process. */
class ProcFolderTest {
    private static final int READS = 0400;
    private static final int WRITES = 0200;

    @TempDir
    private Path directory;

    private static String descriptorOf(Path file) throws IOException {
        List<String> found = new ArrayList<>();
        try (ProcFolder open = ProcFolder.open("/proc/self/fd")) {
            open.forEach(number -> {
                if (open.link(number).equals(Optional.of(file.toString()))) {
                    found.add(number);
                }
                return true;
            });
        }
        assertEquals(1, found.size(), file + " as " + found);
        return found.get(0);
    }

    @Test
    void shouldReturnTheAccessModeOfAnOpenFile() throws Exception {
        Path file = Files.createFile(directory.toRealPath().resolve("file"));
        for (String mode : List.of("r", "rw")) {
            try (RandomAccessFile open = new RandomAccessFile(file.toFile(), mode);
                    ProcFolder links = ProcFolder.open("/proc/self/fd")) {
                String number = descriptorOf(file);
                assertEquals(
                        READS | (mode.length() - 1) * WRITES,
                        links.linkMode(number).orElseThrow() & 0600,
                        mode);
                assertEquals(
                        Files.getAttribute(file, "unix:uid"),
                        links.owner(number).orElseThrow());
                assertEquals(0, open.length());
            }
        }
    }

    @Test
    void shouldReadTheSameByRelativeAndByFullPath() throws Exception {
        try (ProcFolder threads = ProcFolder.open("/proc/self/task")) {
            Set<String> names = new TreeSet<>();
            threads.forEach(names::add);
            String first = names.stream()
                    .filter(name ->
                            Integer.parseInt(name) == ProcessHandle.current().pid())
                    .findFirst()
                    .orElseThrow();
            assertEquals(
                    Integer.parseInt(first), threads.stat(first).orElseThrow().pid());
            ProcFields status =
                    new ProcFields(threads.text(first + "/status", 1 << 20).orElseThrow());
            assertEquals(Optional.of(first), status.value("Pid"));
            try (ProcFolder namespaces = threads.folder(first + "/ns")) {
                assertEquals(ProcFiles.link("/proc/self/ns/mnt"), namespaces.link("mnt"));
            }
        }
    }

    @Test
    void shouldBeEmptyWhenSomethingIsGone() throws Exception {
        assertThrows(NoSuchFileException.class, () -> ProcFolder.open("/proc/2147483647/task"));
        try (ProcFolder threads = ProcFolder.open("/proc/self/task")) {
            assertEquals(Optional.empty(), threads.stat("2147483647"));
            assertEquals(Optional.empty(), threads.beginning("2147483647/wchan"));
            assertEquals(Optional.empty(), threads.link("2147483647/cwd"));
            assertEquals(OptionalInt.empty(), threads.owner("2147483647"));
        }
    }

    @Test
    void shouldFindAFieldByItsWholeName() {
        ProcFields fields =
                new ProcFields("Name:\tUid:\nnonvoluntary_ctxt_switches:\t2\nvoluntary_ctxt_switches:\t1\n");
        assertEquals(Optional.of("1"), fields.value("voluntary_ctxt_switches"));
        assertEquals(Optional.of("2"), fields.value("nonvoluntary_ctxt_switches"));
        assertEquals(Optional.empty(), fields.value("Uid"));
        assertEquals(Optional.of("Uid:"), fields.value("Name"));
    }
}
