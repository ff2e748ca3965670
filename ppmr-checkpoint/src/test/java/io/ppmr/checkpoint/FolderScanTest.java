package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcFolder;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class FolderScanTest {
    private static final int CROWD = 400;

    @TempDir
    private Path directory;

    private void fill(int count) throws IOException {
        for (int number : IntStream.range(0, count).toArray()) {
            Files.createFile(directory.resolve(Integer.toString(number)));
        }
    }

    @Test
    void shouldHandOverWhatWasFoundInTheKernelsOrderWhenThereAreMany() throws Exception {
        fill(CROWD);
        Set<Thread> lookers = ConcurrentHashMap.newKeySet();
        try (ProcFolder folder = ProcFolder.open(directory.toString())) {
            List<String> due = new ArrayList<>();
            folder.forEach(due::add);
            due.removeIf(name -> name.endsWith("7"));
            List<String> found = new ArrayList<>();
            FolderScan.<String>each(
                    folder,
                    (in, name) -> {
                        lookers.add(Thread.currentThread());
                        return Optional.of(name).filter(one -> !one.endsWith("7"));
                    },
                    found::add);
            assertEquals(due, found);
        }
        assertTrue(lookers.size() > 1, lookers.toString());
        lookers.remove(Thread.currentThread());
        for (Thread looker : lookers) {
            looker.join(60_000);
            assertFalse(looker.isAlive(), "a helper is left");
        }
    }

    @Test
    void shouldNotLookFurtherWhenNoMoreIsWanted() throws Exception {
        fill(CROWD);
        List<String> looked = new ArrayList<>();
        try (ProcFolder folder = ProcFolder.open(directory.toString())) {
            FolderScan.<String>each(
                    folder,
                    (in, name) -> {
                        looked.add(name);
                        return Optional.of(name);
                    },
                    name -> false);
        }
        assertTrue(looked.size() < CROWD / 2, looked.size() + " were looked at");
    }

    @Test
    void shouldFailWhenALookOfAHelperFails() throws Exception {
        fill(CROWD);
        Thread self = Thread.currentThread();
        try (ProcFolder folder = ProcFolder.open(directory.toString())) {
            IOException failure = assertThrows(
                    IOException.class,
                    () -> FolderScan.<String>each(
                            folder,
                            (in, name) -> {
                                if (Thread.currentThread() != self) {
                                    throw new IOException("no");
                                }
                                return Optional.of(name);
                            },
                            name -> true));
            assertEquals("no", failure.getMessage());
        }
    }

    @Test
    void shouldSayThatAProcessIsGone() {
        assertThrows(
                NoSuchFileException.class,
                () -> FolderScan.<String>threads(Integer.MAX_VALUE, (in, name) -> Optional.of(name), name -> true));
    }
}
