package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RightsComparisonTest {
    private static final String REST = " 1000 1000 1000 0,0,0,1ff,0 8 2 3 1 ipc,net 5 0 0 nofile=100:200";
    private static final String ROOTS_REST = REST.replace(" 1000 1000 1000", " 0 1000 1000");

    @TempDir
    private Path directory;

    private int records;

    private static String thread(int id, String rest) {
        return RightsLine.of(ThreadRights.parse(id + rest));
    }

    private static String file(String path, int owner, String mode) {
        return RightsLine.of(new OpenFile(path, owner, mode.charAt(0) == 'r', mode.charAt(1) == 'w'));
    }

    private static ProcessPrivileges record(Path directory, int number, String... lines) throws CheckpointException {
        ArrivingPrivileges arriving = new ArrivingPrivileges(directory, number);
        arriving.add(List.copyOf(new TreeSet<>(Arrays.asList(lines))));
        return arriving.end();
    }

    private ProcessPrivileges record(String... lines) throws CheckpointException {
        return record(directory, records++, lines);
    }

    private static Optional<String> firstEscalation(
            ProcessPrivileges copy, ProcessPrivileges original, List<OpenFile> doubtful) throws CheckpointException {
        try (copy;
                original) {
            return new RightsComparison(copy, original).firstEscalation(doubtful::add);
        }
    }

    private Optional<String> firstEscalation(ProcessPrivileges copy, ProcessPrivileges original)
            throws CheckpointException {
        return firstEscalation(copy, original, new ArrayList<>());
    }

    @Test
    void shouldFindNothingWhenAllIsTheSame() throws Exception {
        String[] lines = {
            thread(7, REST), thread(8, REST), file("/a", 0, "rw"), RightsLine.root("/"), RightsLine.other("net")
        };
        List<OpenFile> doubtful = new ArrayList<>();
        assertEquals(Optional.empty(), firstEscalation(record(lines), record(lines), doubtful));
        assertEquals(List.of(), doubtful);
    }

    @Test
    void shouldNameARootAndADescriptorThatTheOriginalHadNot() throws Exception {
        String thread = thread(7, REST);
        assertEquals(
                Optional.of("its root directory is /home, but its original's was [/]"),
                firstEscalation(record(thread, RightsLine.root("/home")), record(thread, RightsLine.root("/"))));
        assertEquals(
                Optional.of("it has a descriptor of kind anon_inode:bpf-map, but its original had none"),
                firstEscalation(record(thread, RightsLine.other("anon_inode:bpf-map")), record(thread)));
        assertEquals(Optional.empty(), firstEscalation(record(thread, RightsLine.other("pipe")), record(thread)));
    }

    /** A process of another user is found by its number if numbers are kept. Otherwise it is compared with all. */
    @Test
    void shouldCompareThreadsByTheirNumbersWhereAllAreKept() throws Exception {
        ProcessPrivileges original = record(thread(7, REST), thread(8, ROOTS_REST));
        String printed = firstEscalation(record(thread(7, ROOTS_REST), thread(8, REST)), original)
                .orElseThrow();
        assertTrue(printed.startsWith("thread 7: it has the user ids [0]"), printed);
        assertEquals(
                Optional.empty(),
                firstEscalation(
                        record(thread(9, ROOTS_REST), thread(10, REST)),
                        record(thread(7, REST), thread(8, ROOTS_REST))));
        printed = firstEscalation(record(thread(9, ROOTS_REST)), record(thread(7, REST)))
                .orElseThrow();
        assertTrue(printed.startsWith("thread 9: it has the user ids [0]"), printed);
    }

    @Test
    void shouldKnowUnnamedMemoryWhereTheOriginalSharedSome() throws Exception {
        String memory = file(ProcessPrivileges.UNNAMED_MEMORY, 0, "rw");
        List<OpenFile> doubtful = new ArrayList<>();
        assertEquals(
                Optional.empty(),
                firstEscalation(
                        record(thread(7, REST), memory),
                        record(thread(7, REST), file("/dev/zero (deleted)", 0, "rw")),
                        doubtful));
        assertEquals(List.of(), doubtful);
        firstEscalation(record(thread(7, REST), memory), record(thread(7, REST)), doubtful);
        assertEquals(1, doubtful.size());
    }

    @Provide
    Arbitrary<List<OpenFile>> files() {
        // Paths with equal beginnings, and with characters before and behind the separators of words.
        Arbitrary<String> path = Arbitraries.of("/a", "/a b", "/a\n", "/a/b", "/a!", "/ab", "/a b rw", "/a\u0001");
        return Combinators.combine(
                        path,
                        Arbitraries.of(-1, 0, 1, 10, 1000),
                        Arbitraries.of(true, false),
                        Arbitraries.of(true, false))
                .as(OpenFile::new)
                .list()
                .ofMaxSize(12);
    }

    @Property(tries = 500)
    void shouldTellTheFilesThatNoneOfTheOriginalsCovers(
            @ForAll("files") List<OpenFile> copies, @ForAll("files") List<OpenFile> originals) throws Exception {
        List<OpenFile> doubtful = new ArrayList<>();
        Path folder = Files.createTempDirectory("ppmr-rights");
        try {
            firstEscalation(lines(folder, 1, copies), lines(folder, 2, originals), doubtful);
        } finally {
            Files.delete(folder);
        }
        assertEquals(
                copies.stream()
                        .filter(copy -> originals.stream().noneMatch(one -> one.covers(copy)))
                        .map(RightsLine::of)
                        .distinct()
                        .sorted()
                        .toList(),
                doubtful.stream().map(RightsLine::of).toList());
    }

    private static ProcessPrivileges lines(Path folder, int number, List<OpenFile> files) throws CheckpointException {
        List<String> lines = new ArrayList<>(files.stream().map(RightsLine::of).toList());
        lines.add(thread(7, REST));
        return record(folder, number, lines.toArray(String[]::new));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "nonsense",
                "thread 1 2 3",
                "thread x",
                "thread 7 1000 1000 1000 0,0,0,1ff,0 8 2 3 1 ipc,net 5 0 0 nofile=100:200",
                "file 0 /a",
                "file x /a\0rw",
                "file 0\0rw",
                "file 0 /a\0r",
                "rights 1",
                "rights 000",
                "rights 00x 1000 1000 1000 0,0,0,1ff,0 8 2 3 1 ipc,net 5 0 0 nofile=100:200",
                "rights 000 1000 1000",
                "thread 0000000007 =000",
                "thread 0000000007 ="
            })
    void shouldRefuseALineThatCannotBeRead(String line) throws Exception {
        try (ArrivingPrivileges arriving = new ArrivingPrivileges(directory, 0)) {
            CheckpointException e = assertThrows(CheckpointException.class, () -> arriving.add(List.of(line)));
            assertTrue(e.getMessage().contains("Remedy: install the same release"), e.getMessage());
        }
    }

    private static String shared(int number, String rest) {
        return RightsLine.shared("%03d".formatted(number), rest.strip());
    }

    @Test
    void shouldCompareWhatThreadsShareAsIfEachHadItInItsLine() throws Exception {
        String[] together = {
            shared(0, REST), shared(1, ROOTS_REST), RightsLine.referring(7, "000"), RightsLine.referring(8, "001")
        };
        String[] apart = {thread(7, REST), thread(8, ROOTS_REST)};
        assertEquals(Optional.empty(), firstEscalation(record(together), record(apart)));
        assertEquals(Optional.empty(), firstEscalation(record(apart), record(together)));
        assertTrue(
                firstEscalation(
                                record(together),
                                record(shared(0, REST), RightsLine.referring(7, "000"), thread(8, REST)))
                        .orElseThrow()
                        .startsWith("thread 8: it has the user ids [0]"),
                "has more than its original");
    }

    @Test
    void shouldGiveEachThreadItsWordsWhenARecordIsRead() throws Exception {
        List<String> lines = new ArrayList<>();
        try (ProcessPrivileges rights = record(shared(0, REST), RightsLine.referring(7, "000"), thread(8, ROOTS_REST));
                RightsCursor cursor = rights.open()) {
            for (String line = cursor.next(); line != null; line = cursor.next()) {
                lines.add(line);
            }
        }
        assertEquals(List.of(thread(7, REST), thread(8, ROOTS_REST)), lines);
    }

    @Test
    void shouldTakeRightsThatNoThreadHasForNoThread() throws Exception {
        try (ProcessPrivileges rights = record(shared(0, REST))) {
            assertTrue(rights.summary().hasNoThread());
        }
        try (ProcessPrivileges rights = record(shared(0, REST), RightsLine.referring(7, "000"))) {
            assertEquals(200, rights.summary().most("nofile", ThreadRights.HARD));
        }
    }

    @Test
    void shouldRefuseMoreSharedRightsThanItKeeps() throws Exception {
        try (ArrivingPrivileges arriving = new ArrivingPrivileges(directory, 0)) {
            CheckpointException e = assertThrows(CheckpointException.class, () -> {
                for (int number = 0; number < 1000; number++) {
                    arriving.add(List.of(shared(number, REST)));
                }
            });
            assertTrue(e.getMessage().contains("there are too many"), e.getMessage());
            assertTrue(e.getMessage().contains("'rights 256 "), e.getMessage());
        }
        try (ArrivingPrivileges arriving = new ArrivingPrivileges(directory, 1)) {
            arriving.add(List.of(shared(0, REST)));
            CheckpointException e =
                    assertThrows(CheckpointException.class, () -> arriving.add(List.of(shared(0, ROOTS_REST))));
            assertTrue(e.getMessage().contains("number of another line"), e.getMessage());
        }
    }

    @Property(tries = 200)
    void shouldGiveWordsANumberOnceWhileThereIsRoom(@ForAll @Size(max = 600) List<@IntRange(max = 400) Integer> drawn) {
        SharedRights written = new SharedRights();
        SharedRights read = new SharedRights();
        for (int one : drawn) {
            String words = "rights of " + one;
            Optional<String> number = written.number(words);
            if (number.isEmpty()) {
                number = written.add(words);
                number.ifPresent(added -> assertTrue(read.put(added, words)));
            }
            number.ifPresent(known -> assertEquals(Optional.of(words), read.words(known)));
        }
        assertEquals(
                Math.min(256, Set.copyOf(drawn).size()),
                Set.copyOf(drawn).stream()
                        .filter(one -> written.number("rights of " + one).isPresent())
                        .count());
    }

    @Test
    void shouldRefuseLinesThatComeOutOfOrderOrTwice() throws Exception {
        try (ArrivingPrivileges arriving = new ArrivingPrivileges(directory, 0)) {
            arriving.add(List.of(RightsLine.root("/b")));
            for (String line : List.of("/a", "/b")) {
                CheckpointException e =
                        assertThrows(CheckpointException.class, () -> arriving.add(List.of(RightsLine.root(line))));
                assertTrue(e.getMessage().contains("does not come after"), e.getMessage());
            }
        }
    }
}
