package io.ppmr.checkpoint.files;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.files.FileRules.CompareContent;
import io.ppmr.checkpoint.files.FileRules.FileDecision;
import io.ppmr.checkpoint.files.FileRules.Refused;
import io.ppmr.checkpoint.files.FileRules.Same;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class FileRulesTest {
    private static final String EXT = "ef53";
    private static final String NFS = "6969";
    private static final String FUSE = "65735546";
    private static final String PROC = "9fa0";
    private static final String SYSFS = "62656572";
    private static final FileRules TWO_NODES =
            new FileRules(new PathPatterns(List.of("/run/nscd/*")), false, CarryPolicy.NONE, 1000);
    private static final FileRules ONE_KERNEL = new FileRules(PathPatterns.NONE, true, CarryPolicy.NONE, 1000);

    private static FileFacts facts(String system, String handle, String mode, int length, String device) {
        String line = "found 2 " + system + " " + handle + " " + mode + " 1000 1000 " + length + " 0:0 1 77 " + device
                + " 1.000000000 1.000000000 4096";
        return FileFacts.parse(line).orElseThrow();
    }

    private static OpenedFile file(String path, boolean reads, boolean writes) {
        return new OpenedFile(5, "job", "descriptor 3", "/proc/5/fd/3", path, "77", reads, writes, false);
    }

    private static final OpenedFile READ = file("/data/f", true, false);
    private static final OpenedFile WRITTEN = file("/data/f", true, true);

    /** Disks that were copied from one image have files with the same handles. */
    @ParameterizedTest
    @CsvSource({
        "ef53, 1:aa, 1:aa, 8:1, 8:1, false, false",
        "ef53, 1:aa, 1:aa, 8:1, 8:1, true, true",
        "ef53, 1:aa, 1:aa, 8:1, 8:2, true, false",
        "794c7630, -, -, 0:5, 0:5, true, true",
        "6969, 1:aa, 1:aa, 0:7, 0:9, false, true",
        "6969, 1:aa, 1:bb, 0:7, 0:7, true, false",
        "1021997, -, -, 0:7, 0:9, false, true",
        "65735546, 81:aa, 81:bb, 0:7, 0:9, false, true",
    })
    void shouldTellOneObjectFromTwo(
            String system,
            String handle,
            String other,
            String device,
            String otherDevice,
            boolean kernel,
            boolean same) {
        assertEquals(
                same,
                facts(system, handle, "100644", 5, device)
                        .isSameObject(facts(system, other, "100644", 5, otherDevice), kernel));
    }

    @Test
    void shouldTakeAnObjectForAnotherWhenItsOwnerOrModeDiffers() {
        assertFalse(facts(NFS, "1:aa", "100644", 5, "0:7").isSameObject(facts(NFS, "1:aa", "100600", 5, "0:7"), false));
        assertFalse(
                facts(NFS, "1:aa", "100644", 5, "0:7").isSameObject(facts(FUSE, "1:aa", "100644", 5, "0:7"), false));
    }

    private static String reason(FileDecision verdict) {
        return assertInstanceOf(Refused.class, verdict).refusal().toString();
    }

    @Test
    void shouldNotCompareLengthsOfOneObjectWhileTheJobWrites() {
        FileDecision verdict = TWO_NODES.compare(
                0, WRITTEN, facts(NFS, "1:aa", "100644", 5, "0:7"), facts(NFS, "1:aa", "100644", 3, "0:9"));
        assertTrue(assertInstanceOf(Same.class, verdict).shared());
        FileDecision here = ONE_KERNEL.compare(
                0, WRITTEN, facts(EXT, "1:aa", "100644", 5, "8:1"), facts(EXT, "1:aa", "100644", 5, "8:1"));
        assertFalse(assertInstanceOf(Same.class, here).shared());
    }

    @Test
    void shouldRefuseToWriteToANodesOwnFileAndCompareWhatIsRead() {
        FileFacts here = facts(EXT, "1:aa", "100644", 5, "8:1");
        FileFacts there = facts(EXT, "1:aa", "100644", 5, "8:1");
        String own = reason(TWO_NODES.compare(0, WRITTEN, here, there));
        assertTrue(own.startsWith("PID 5 (job) has /data/f as descriptor 3, open for reading and writing, which"), own);
        assertInstanceOf(CompareContent.class, TWO_NODES.compare(0, READ, here, there));
        assertInstanceOf(Same.class, TWO_NODES.compare(0, file("/data/f", false, false), here, there));
        assertInstanceOf(Same.class, TWO_NODES.compare(0, file("/run/nscd/passwd", true, false), here, there));
        assertInstanceOf(Refused.class, TWO_NODES.compare(0, file("/run/nscd/passwd", true, true), here, there));
        FileFacts longer = facts(EXT, "1:aa", "100644", 6, "8:1");
        assertTrue(reason(TWO_NODES.compare(0, READ, here, longer)).contains("5 bytes here and 6"));
        assertInstanceOf(
                Same.class, TWO_NODES.contents(0, READ, facts(EXT, "1:aa", "100644", 5, "8:1"), "id ab 5", "id ab 5"));
        assertTrue(reason(TWO_NODES.contents(0, READ, facts(EXT, "1:aa", "100644", 5, "8:1"), "id ab 5", "id ac 5"))
                .contains("other content"));
        assertTrue(reason(TWO_NODES.contents(0, READ, facts(EXT, "1:aa", "100644", 5, "8:1"), "id ab 5", "error 13"))
                .contains("at the target"));
    }

    /** Each row has the file here, whether the target has one, whether it is written, and the decision. */
    @ParameterizedTest
    @CsvSource({
        "1000 5 1, none, false, carried",
        "1000 5 1, none, true, carried",
        "1000 5 1, 1000 5 1, false, compared",
        "1000 5 1, 1000 6 1, false, replaces",
        "1000 5 1, 1000 5 1, true, replaces",
        "1001 5 1, none, false, belongs to user 1001",
        "1000 5 2, none, true, has 2 names",
        "1000 2000000000000 1, none, true, has a length of",
    })
    void shouldCarryAFileOfTheJobsUserThatTheTargetHasNotSo(String here, String there, boolean writes, String what) {
        FileFacts found = carriedFacts(here);
        for (boolean replace : new boolean[] {true, false}) {
            FileRules rules = new FileRules(
                    PathPatterns.NONE, false, new CarryPolicy(new PathPatterns(List.of("/data/*")), 10, replace), 1000);
            OpenedFile file = writes ? WRITTEN : READ;
            FileDecision verdict = there.equals("none")
                    ? rules.missing(0, file, found)
                    : rules.compare(0, file, found, carriedFacts(there));
            String reason = verdict instanceof FileRules.Carried carried
                    ? carried.replaces() ? "replaces" : "carried"
                    : verdict instanceof CompareContent ? "compared" : reason(verdict);
            String expected = what.equals("replaces") && !replace ? "the target has a file of that name" : what;
            assertTrue(reason.contains(expected), reason);
            assertFalse(rules.missing(0, file("/other/f", true, writes), found) instanceof FileRules.Carried);
        }
    }

    private static FileFacts carriedFacts(String words) {
        String[] fields = words.split(" ", -1);
        return FileFacts.parse("found 2 " + EXT + " 1:aa 100644 " + fields[0] + " 1000 " + fields[1] + " 0:0 "
                        + fields[2] + " 77 8:1 1.000000000 1.000000000 4096")
                .orElseThrow();
    }

    @Test
    void shouldCarryAFileWhoseContentIsAnotherThere() {
        FileRules rules = new FileRules(
                PathPatterns.NONE, false, new CarryPolicy(new PathPatterns(List.of("/data/*")), 10, true), 1000);
        FileFacts here = carriedFacts("1000 5 1");
        assertInstanceOf(Same.class, rules.contents(0, READ, here, "id ab 5", "id ab 5"));
        assertInstanceOf(FileRules.Carried.class, rules.contents(0, READ, here, "id ab 5", "id ac 5"));
    }

    @Test
    void shouldKnowTheProcessesOfTheRankByTheirFilesInProc() {
        FileFacts facts = facts(PROC, "-", "100444", 0, "0:3");
        Set<String> pids = Set.of("7");
        assertInstanceOf(
                Same.class,
                TWO_NODES
                        .alone(0, file("/proc/7/stat", true, false), facts, pids)
                        .orElseThrow());
        Optional<FileDecision> other = TWO_NODES.alone(0, file("/proc/8/stat", true, false), facts, pids);
        assertTrue(reason(other.orElseThrow()).contains("a process that is not moved with it"));
        assertTrue(TWO_NODES
                .alone(0, file("/proc/meminfo", true, false), facts, pids)
                .isEmpty());
        assertInstanceOf(Same.class, TWO_NODES.compare(0, file("/proc/meminfo", true, false), facts, facts));
        FileFacts cpu = facts(SYSFS, "-", "100444", 4096, "0:4");
        assertInstanceOf(Same.class, TWO_NODES.compare(0, file("/sys/x", true, false), cpu, cpu));
    }

    @Test
    void shouldCompareDevicesByKindAndNumber() {
        String line = "found 2 1021994 1:aa 20666 0 0 0 1:3 1 4 0:6 1.000000000 1.000000000 0";
        FileFacts zero = FileFacts.parse(line).orElseThrow();
        FileFacts other = FileFacts.parse(line.replace("1:3", "195:0")).orElseThrow();
        assertInstanceOf(Same.class, TWO_NODES.compare(0, WRITTEN, zero, zero));
        assertTrue(reason(TWO_NODES.compare(0, WRITTEN, zero, other)).contains("device 1:3 here and 195:0"));
    }

    @Test
    void shouldWriteNamesSoThatTheyDoNothing() {
        String reason = TWO_NODES
                .unseen(0, file("/a\n\033[31mCOMMITTED", true, false), 2, true)
                .toString();
        assertTrue(reason.contains("/a\\012\\033[31mCOMMITTED"), reason);
    }

    /** Lines come from a process of the user, or from another node. */
    @Property
    void shouldReadNoLineWronglyWhateverItIs(@ForAll String line) {
        FileFacts.parse(line).ifPresent(facts -> assertTrue(line.startsWith("found "), line));
        assertTrue(FileFacts.error(line) >= 0);
    }

    @ParameterizedTest
    @CsvSource({
        "/local/**, /local/a/b, true",
        "/local/**, /locals, false",
        "/run/nscd/*, /run/nscd/passwd, true",
        "/run/nscd/*, /run/nscd/a/b, false",
        "/a.b, /aXb, false",
    })
    void shouldMatchPaths(String pattern, String path, boolean matches) {
        assertEquals(matches, new PathPatterns(List.of(pattern)).matches(path));
    }

    @Test
    void shouldTakeNoPatternThatLeadsElsewhere() {
        assertThrows(IllegalArgumentException.class, () -> new PathPatterns(List.of("local/*")));
        assertThrows(IllegalArgumentException.class, () -> new PathPatterns(List.of("/local/../etc/*")));
    }

    private static final OpenedFile NAME =
            new OpenedFile(5, "job", "the name of socket 7", "", "/data/s", "77", false, false, false);

    @Test
    void shouldTellWhetherARestartWouldRemoveAnothersFile() {
        FileFacts here = facts(EXT, "1:aa", "140755", 0, "8:1");
        FileFacts shared = facts(NFS, "1:aa", "140755", 0, "0:7");
        assertTrue(assertInstanceOf(Same.class, TWO_NODES.compareNames(0, NAME, Optional.of(shared), shared))
                .shared());
        assertTrue(assertInstanceOf(Same.class, ONE_KERNEL.compareNames(0, NAME, Optional.of(here), here))
                .shared());
        assertInstanceOf(FileRules.CompareBound.class, TWO_NODES.compareNames(0, NAME, Optional.of(here), here));
        String other =
                reason(TWO_NODES.compareNames(0, NAME, Optional.of(here), facts(EXT, "1:aa", "100755", 0, "8:1")));
        assertTrue(other.startsWith("PID 5 (job) has /data/s as the name of socket 7, and the target has"), other);
        FileFacts foreign = FileFacts.parse(
                        "found 2 ef53 1:aa 140755 1001 1000 0 0:0 1 77 8:1 1.000000000 1.000000000 0")
                .orElseThrow();
        assertInstanceOf(Refused.class, TWO_NODES.compareNames(0, NAME, Optional.of(here), foreign));
        assertInstanceOf(Refused.class, ONE_KERNEL.compareNames(0, NAME, Optional.empty(), foreign));
        assertInstanceOf(FileRules.CompareBound.class, ONE_KERNEL.compareNames(0, NAME, Optional.empty(), here));
    }

    @ParameterizedTest
    @CsvSource({
        "error 111, ''",
        "error 2, ''",
        "yes, a process at the target has a socket of that name",
        "error 13, cannot access at the target: Permission denied",
        "anything, cannot access at the target",
    })
    void shouldTakeANameOnlyFromASocketThatNobodyHas(String answer, String why) {
        FileDecision verdict = TWO_NODES.boundThere(0, NAME, answer);
        if (why.isEmpty()) {
            assertInstanceOf(Same.class, verdict);
        } else {
            assertTrue(reason(verdict).contains(why), reason(verdict));
        }
    }
}
