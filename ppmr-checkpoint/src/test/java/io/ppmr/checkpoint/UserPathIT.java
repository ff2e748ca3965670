package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests root's reads in a folder that an ordinary user controls. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class UserPathIT {
    private static final int LIMIT = UserPath.MAX_TEXT_BYTES;
    private static final long GIB = 1L << 30;
    private static final int STRANGER = 20_002;

    private JobFixture fixture;
    private Path file;
    private Path secret;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        file = fixture.userDirectory("hers").resolve("pid");
        secret = Files.writeString(fixture.base.resolve("secret"), "4711\n");
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private void write(String text, int uid) throws IOException {
        Files.setAttribute(Files.writeString(file, text), "unix:uid", uid);
    }

    private String refusal() {
        String output = assertThrows(IOException.class, () -> UserPath.read(file, JobFixture.USER, LIMIT))
                .getMessage();
        assertTrue(output.contains(file.toString()), output);
        return output;
    }

    @Test
    void shouldReadAFileWhenItIsTheUsersOrRoots() throws Exception {
        assertEquals(Optional.empty(), UserPath.read(file, JobFixture.USER, LIMIT));
        write("12\n", JobFixture.USER.uid());
        assertEquals(Optional.of("12\n"), UserPath.read(file, JobFixture.USER, LIMIT));
        write("13\n", 0);
        assertEquals(Optional.of("13\n"), UserPath.read(file, JobFixture.USER, LIMIT));
        write("", 0);
        assertEquals(Optional.of(""), UserPath.read(file, JobFixture.USER, LIMIT));
    }

    @Test
    void shouldRefuseAFileWhenItIsAnotherUsers() throws Exception {
        write("12\n", STRANGER);
        assertTrue(refusal().contains("belongs to user " + STRANGER));
    }

    @Test
    void shouldNotFollowALinkWhenItIsTheLastComponent() throws Exception {
        fixture.asUser("ln", "-s", secret.toString(), file.toString());
        assertTrue(refusal().contains("symbolic link"));
    }

    @Test
    void shouldNotWaitWhenTheFileIsAFifo() throws Exception {
        fixture.asUser("mkfifo", file.toString());
        assertTrue(refusal().contains("no regular file"));
        assertThrows(IOException.class, () -> UserPath.tail(file, LIMIT));
    }

    @Test
    void shouldNotWaitWhenTheFileIsLeased() throws Exception {
        write("12\n", JobFixture.USER.uid());
        fixture.raceAsUser("lease", file.toString());
        assertTrue(refusal().contains("lease"));
    }

    @Test
    void shouldReadNoMoreThanTheLimitWhenTheFileIsSparse() throws Exception {
        fixture.asUser("truncate", "-s", "1G", file.toString());
        assertTrue(refusal().contains("longer than " + LIMIT));
        try (RandomAccessFile end = new RandomAccessFile(file.toFile(), "rw")) {
            end.seek(GIB);
            end.writeBytes("the end");
        }
        assertEquals(Optional.of("end"), UserPath.tail(file, 3));
        write("x".repeat(LIMIT), 0);
        assertEquals(Optional.of("x".repeat(LIMIT)), UserPath.read(file, JobFixture.USER, LIMIT));
        write("x".repeat(LIMIT + 1), 0);
        refusal();
    }

    @Test
    void shouldKeepToTheDirectoryThatItHoldsWhenTheNameIsExchanged() throws Exception {
        write("12\n", JobFixture.USER.uid());
        Path folder = file.getParent();
        try (UserPath held = UserPath.hold(folder)) {
            Files.move(folder, fixture.base.resolve("away"));
            Files.createSymbolicLink(folder, Path.of("/etc"));
            try (UserPath entry = held.entry(Path.of("pid"))) {
                assertEquals("12\n", entry.read(LIMIT));
                assertEquals(JobFixture.USER.uid(), entry.owner().uid());
            }
            assertThrows(IOException.class, () -> UserPath.hold(folder).directory());
        }
    }

    @Test
    void shouldLeaveNoDescriptorBehindWhenItReadsAndRefuses() throws Exception {
        write("12\n", STRANGER);
        refusal();
        long before = descriptors();
        for (int i = 0; i < 50; i++) {
            refusal();
            UserPath.tail(file, LIMIT);
        }
        assertTrue(descriptors() <= before + 5, "descriptors: " + before + ", then " + descriptors());
    }

    private static long descriptors() throws IOException {
        try (var all = Files.list(Path.of("/proc/self/fd"))) {
            return all.count();
        }
    }
}
