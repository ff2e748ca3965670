package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.ppmr.linux.MountEntry;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class CheckpointStoreTest {
    private static final List<MountEntry> MOUNTS = List.of(
            new MountEntry(1, "/", "/", "ext4", "/dev/sda1"),
            new MountEntry(2, "/", "/ckpt", "nfs4", "filer:/ckpt"),
            new MountEntry(3, "/", "/ckpt/local", "tmpfs", "tmpfs"),
            new MountEntry(4, "/", "/other", "nfs4", "filer:/ckpt"),
            new MountEntry(5, "/", "/third", "lustre", "mds@tcp:/work"));

    private static String nameOf(String directory) {
        return CheckpointStore.nameOf(Path.of(directory), MOUNTS);
    }

    @Test
    void shouldHaveNoNameWhenTheDirectoryIsLocal() {
        assertEquals("", nameOf("/var/ckpt"));
        assertEquals("", nameOf("/ckpt/local/a"));
        assertEquals("", nameOf("/ckpts"));
    }

    @Test
    void shouldHaveTheSameNameWhenAFileSystemIsMountedElsewhere() {
        assertEquals(nameOf("/ckpt/a"), nameOf("/other"));
        assertEquals(12, nameOf("/ckpt").length());
        assertNotEquals(nameOf("/ckpt"), nameOf("/third"));
    }
}
