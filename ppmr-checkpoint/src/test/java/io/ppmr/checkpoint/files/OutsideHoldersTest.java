package io.ppmr.checkpoint.files;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OutsideHoldersTest {
    @TempDir
    private Path folder;

    /** The rank's process forks others all the time. A process that was not listed with it is not foreign. */
    @Test
    void shouldTellAStrangerFromAProcessThatTheRankHasForkedSince() throws Exception {
        Path file = Files.createFile(folder.resolve("f"));
        String inode = Files.getAttribute(file, "unix:ino").toString();
        Process shell = new ProcessBuilder("bash", "-c", "exec 5>>\"$0\"; echo ready; sleep 60 & wait", file.toString())
                .start();
        try {
            shell.inputReader().readLine();
            int pid = (int) shell.pid();
            OpenedFile opened = new OpenedFile(
                    pid, "bash", "descriptor 5", "/proc/" + pid + "/fd/5", file.toString(), inode, false, true, false);
            Map<Integer, Map<String, CarriedFile>> carried =
                    Map.of(0, Map.of(file.toString(), new CarriedFile(opened, file.toString(), inode, "8:1", false)));
            List<ProcessIdentity> tree = List.of(new ProcessIdentity("boot", 1, pid, 1));
            assertEquals(Optional.empty(), new OutsideHolders(carried, Map.of(0, tree)).find());
            String stranger =
                    new OutsideHolders(carried, Map.of()).find().orElseThrow().reason();
            assertTrue(stranger.contains("which is outside of the rank and stays on this node"), stranger);
            String other = new OutsideHolders(carried, Map.of(1, tree))
                    .find()
                    .orElseThrow()
                    .reason();
            assertTrue(other.contains("which belongs to rank 1"), other);
            assertTrue(OutsideHolders.holderOf(Set.of(file.toString())).isPresent());
            assertTrue(OutsideHolders.holderOf(Set.of(folder + "/other")).isEmpty());
        } finally {
            shell.descendants().forEach(ProcessHandle::destroyForcibly);
            shell.destroyForcibly();
        }
    }

    /** This process has the file mapped and no descriptor of it. */
    @Test
    void shouldFindWhoMayWriteThroughAMappingWhenItHasNoDescriptor() throws Exception {
        Path file = Files.write(folder.resolve("f"), new byte[1 << 16]);
        String inode = Files.getAttribute(file, "unix:ino").toString();
        int own = (int) ProcessHandle.current().pid();
        OpenedFile opened =
                new OpenedFile(1, "a", "descriptor 5", "/proc/1/fd/5", file.toString(), inode, false, true, false);
        Map<Integer, Map<String, CarriedFile>> carried =
                Map.of(0, Map.of(file.toString(), new CarriedFile(opened, file.toString(), inode, "8:1", false)));
        MappedByteBuffer memory;
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 16);
        }
        String holder =
                new OutsideHolders(carried, Map.of()).find().orElseThrow().reason();
        memory.put(0, (byte) 1);
        assertTrue(holder.contains("PID " + own) && holder.contains("has the same file mapped"), holder);
        List<ProcessIdentity> tree = List.of(new ProcessIdentity("boot", 1, own, 1));
        assertEquals(Optional.empty(), new OutsideHolders(carried, Map.of(0, tree)).find());
    }
}
