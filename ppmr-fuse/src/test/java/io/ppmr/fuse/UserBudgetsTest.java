package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Tests how much of the services' heaps a user may fill, by names and by open files. */
class UserBudgetsTest {
    private static final int UID = 20_001;
    private static final int OTHER = 20_002;
    private static final int LARGE_IMAGE = 4096;
    private static final long SMALL_STACK_BYTES = 128 << 10;
    private static final String LONG = "n".repeat(240);

    private final NodeTree<byte[]> tree = new NodeTree<>(0, 0);

    private interface Making {
        void make(int number) throws ErrnoException;
    }

    /** Creates names until there is no space; returns their number. */
    private static int fill(Making making) throws ErrnoException {
        for (int made = 0; made < 10_000_000; made++) {
            try {
                making.make(made);
            } catch (ErrnoException e) {
                assertEquals(Errno.ENOSPC, e.errno(), e.getMessage());
                return made;
            }
        }
        throw new AssertionError("there is no end of the names");
    }

    private void migration(String name) throws ErrnoException {
        tree.addDirectory("/" + name, 0711, 0, 0);
        tree.addDirectory("/" + name + "/rank-0", 0700, UID, UID);
    }

    private static long heapBytes() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    @Test
    void shouldUseNoMoreHeapThanTheBudgetWhenUsersCreateNames() throws Exception {
        long before = heapBytes();
        for (String name : List.of("a", "b", "c", "d")) {
            migration(name);
        }
        int directories = fill(number -> tree.addDirectory("/a/rank-0/" + number, 0700, UID, UID));
        int links = fill(number -> tree.addSymlink("/b/rank-0/" + number, number + LONG.repeat(16), UID, UID));
        int files = fill(number -> tree.addFile("/c/rank-0/" + number + LONG, 0600, UID, UID, new byte[1024]));
        long taken = heapBytes() - before;
        assertTrue(taken < NodeTree.ALL_BYTES, taken + " bytes of the heap are taken");
        assertTrue(directories > LARGE_IMAGE && files > LARGE_IMAGE, directories + " directories, " + files + " files");
        assertTrue(links > 1000, links + " links");
        assertEquals(directories, tree.list("/a/rank-0").size());
        // All migrations together have a limit, too, and an ended one releases its share.
        assertTrue(fill(number -> tree.addDirectory("/d/rank-0/" + number, 0700, UID, UID)) < 100);
        tree.removeTree("/a");
        assertTrue(fill(number -> tree.addDirectory("/d/rank-0/x" + number, 0700, UID, UID)) > LARGE_IMAGE);
        for (String name : List.of("b", "c", "d")) {
            tree.removeTree("/" + name);
        }
        migration("e");
        assertEquals(directories, fill(number -> tree.addDirectory("/e/rank-0/" + number, 0700, UID, UID)));
    }

    @Test
    void shouldCountRemovedFilesAndLongerNames() throws Exception {
        migration("a");
        int files = fill(number -> {
            tree.addFile("/a/rank-0/f", 0600, UID, UID, new byte[0]);
            tree.removeFile("/a/rank-0/f");
        });
        assertTrue(files < 10_000, files + " files");
        migration("b");
        int directories = fill(number -> {
            tree.addDirectory("/b/rank-0/f", 0600, UID, UID);
            tree.rename("/b/rank-0/f", "/b/rank-0/" + number + LONG);
        });
        assertTrue(directories < 20_000, directories + " directories");
        migration("c");
        for (int number = 0; number < 100_000; number++) {
            tree.addDirectory("/c/rank-0/f", 0600, UID, UID);
            tree.removeDirectory("/c/rank-0/f");
            tree.addSymlink("/c/rank-0/f", LONG, UID, UID);
            tree.removeFile("/c/rank-0/f");
        }
    }

    /** A mount's workers have small stacks, and a tree may be two thousand levels deep. */
    private static void onASmallStack(Callable<?> call) throws Exception {
        FutureTask<?> task = new FutureTask<>(call);
        new Thread(null, task, "small stack", SMALL_STACK_BYTES).start();
        task.get(60, TimeUnit.SECONDS);
    }

    private static void runOnASmallStack(Runnable call) throws Exception {
        onASmallStack(Executors.callable(call));
    }

    @Test
    void shouldRefusePathsAboveTheLimit() throws Exception {
        migration("a");
        StringBuilder path = new StringBuilder("/a/rank-0");
        while (path.length() + 2 <= 4096) {
            tree.addDirectory(path.append("/d").toString(), 0700, UID, UID);
        }
        assertEquals(
                Errno.ENAMETOOLONG,
                assertThrows(ErrnoException.class, () -> tree.addDirectory(path + "/d", 0700, UID, UID))
                        .errno());
        tree.addDirectory("/a/rank-0/e", 0700, UID, UID);
        onASmallStack(() -> tree.rename("/a/rank-0/d", "/a/rank-0/f"));
        runOnASmallStack(() -> assertEquals(
                Errno.ENAMETOOLONG,
                assertThrows(ErrnoException.class, () -> tree.rename("/a/rank-0/f", "/a/rank-0/e/f"))
                        .errno()));
        assertNotNull(tree.find("/a/rank-0/f"));
    }

    @Test
    void shouldKeepHandlesFreeForRootWhenUsersOpenTheMaximum() throws Exception {
        HandleTable<Object> handles = new HandleTable<>();
        List<Long> own = new ArrayList<>();
        for (int open = 0; open < HandleTable.OF_A_USER; open++) {
            own.add(handles.add(this, UID));
        }
        assertEquals(
                Errno.ENFILE,
                assertThrows(ErrnoException.class, () -> handles.add(this, UID)).errno());
        for (int user = OTHER; user < OTHER + 2; user++) {
            for (int open = 0; open < HandleTable.OF_A_USER; open++) {
                handles.add(this, user);
            }
        }
        assertThrows(ErrnoException.class, () -> handles.add(this, OTHER + 2));
        handles.add(this, 0);
        handles.remove(own.get(7));
        assertEquals(own.get(7), handles.add(this, OTHER + 2));
    }
}
