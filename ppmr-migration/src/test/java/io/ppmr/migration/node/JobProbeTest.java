package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Polling;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.os.Mapping;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.control.JobFacts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JobProbeTest {
    private static final int OTHER_UID = 41_236;
    private static final int SECRET_BYTES = 12_345;

    @Test
    void shouldTellMemoryPidsAndFilesOfAProcess() throws Exception {
        Process process = new ProcessBuilder("sleep", "60").start();
        try {
            ProcessTable table = new ProcessTable();
            JobFacts facts = new JobProbe(table, new Preparation(() -> false))
                    .facts("criu", List.of(table.of((int) process.pid())));
            assertEquals("criu", facts.checkpointer());
            assertEquals(List.of((int) process.pid()), facts.pids());
            assertTrue(facts.residentBytes() > 0, facts.toString());
            for (JobFacts.MappedFile file : facts.files()) {
                assertEquals(Files.size(Path.of(file.path())), file.lengthBytes(), file.path());
            }
            assertTrue(facts.files().stream().anyMatch(file -> file.path().contains("libc")), facts.toString());
        } finally {
            process.destroyForcibly();
        }
    }

    /** The mapped file itself is there in map_files; its path is the user's to change. */
    @Test
    void shouldTellNothingOfAnotherFileWhenALinkLiesInTheMappedFilesPlace(@TempDir Path folder) throws Exception {
        Path mapped = Files.writeString(folder.resolve("mapped"), "12345");
        Path secret = Files.writeString(folder.resolve("secret"), "a secret of another user");
        Mapping mapping = mapping(mapped);
        Path proc = Files.createDirectory(folder.resolve("proc"));
        Files.createSymbolicLink(proc.resolve("root"), Path.of("/"));
        assertEquals(OptionalLong.of(5), JobProbe.lengthBytes(proc, mapping, mapped.toString()));
        // Removed but still mapped, and a link in its place.
        Files.move(mapped, folder.resolve("moved"));
        Files.createSymbolicLink(mapped, secret);
        assertEquals(OptionalLong.empty(), JobProbe.lengthBytes(proc, mapping, mapped.toString()));
        Files.delete(mapped);
        assertEquals(OptionalLong.empty(), JobProbe.lengthBytes(proc, mapping, mapped.toString()));
        // The kernel's own link leads to the file that is mapped, whatever its name is by now.
        Files.createSymbolicLink(
                Files.createDirectory(proc.resolve("map_files")).resolve(mapping.link()), folder.resolve("moved"));
        Files.createSymbolicLink(mapped, secret);
        assertEquals(OptionalLong.of(5), JobProbe.lengthBytes(proc, mapping, mapped.toString()));
    }

    /** Another filesystem lies over the mapped program, with a link to a file that the user cannot read. */
    @Test
    void shouldTellNothingOfAFileThatTheUserCannotReadWhenALinkLiesInTheProgramsPlace(@TempDir Path folder)
            throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "root alone mounts");
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path own = Files.createDirectory(folder.resolve("own"));
        Path secret = Files.writeString(folder.resolve("secret"), "x".repeat(SECRET_BYTES));
        Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
        Path program = Files.copy(Path.of("/bin/sleep").toRealPath(), own.resolve("program"));
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path pidFile = folder.resolve("pid");
        String script = "setpriv --reuid " + OTHER_UID + " --regid " + OTHER_UID + " --clear-groups \"$1/program\" 60 &"
                + " p=$!; until [ \"$(cat /proc/$p/comm)\" = program ]; do sleep 0.05; done;"
                + " mount -t tmpfs none \"$1\" && ln -s \"$2\" \"$1/program\" && echo $p > \"$3.part\""
                + " && mv \"$3.part\" \"$3\"; wait";
        Process shell = new ProcessBuilder(
                        "unshare", "--mount", "sh", "-c", script, "sh", own.toString(), secret.toString(), "" + pidFile)
                .start();
        try {
            assertTrue(Polling.until(Duration.ofSeconds(30), () -> Files.exists(pidFile)), "the job runs");
            int pid = Integer.parseInt(Files.readString(pidFile).strip());
            ProcessTable table = new ProcessTable();
            JobFacts facts = new JobProbe(table, new Preparation(() -> false)).facts("criu", List.of(table.of(pid)));
            assertFalse(facts.files().stream().anyMatch(file -> file.lengthBytes() == SECRET_BYTES), facts.toString());
            assertTrue(
                    facts.files().stream()
                            .anyMatch(file -> file.path().equals(program.toString())
                                    && file.lengthBytes() == program.toFile().length()),
                    facts.toString());
        } finally {
            shell.descendants().forEach(ProcessHandle::destroyForcibly);
            shell.destroyForcibly().waitFor();
        }
    }

    private static Mapping mapping(Path file) throws IOException {
        Map<String, Object> found = Files.readAttributes(file, "unix:dev,ino");
        return new Mapping(0x1000, 0x2000, "r--p", (long) found.get("dev"), (long) found.get("ino"), file.toString());
    }
    /** The facts are of one process and what descends from it; each of them is looked at alone. */
    @Test
    void shouldLookNoFurtherWhenItIsCalledOffOrTheTimeIsOver() throws Exception {
        Process process = new ProcessBuilder("sleep", "60").start();
        try {
            ProcessTable table = new ProcessTable();
            List<ProcessIdentity> roots = List.of(table.of((int) process.pid()));
            JobProbe calledOff = new JobProbe(table, new Preparation(() -> true));
            CheckpointException e = assertThrows(CheckpointException.class, () -> calledOff.facts("criu", roots));
            assertTrue(e.getMessage().contains("called off"), e.getMessage());
            JobProbe late = new JobProbe(table, new Preparation(() -> false, Duration.ofNanos(-1)));
            e = assertThrows(CheckpointException.class, () -> late.facts("criu", roots));
            assertTrue(e.getMessage().contains("has taken longer than"), e.getMessage());
            Preparation over = new Preparation(() -> true);
            assertThrows(CheckpointException.class, () -> MemoryShape.of(roots, 1, over));
        } finally {
            process.destroyForcibly();
        }
    }
}
